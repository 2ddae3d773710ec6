/* Keys, as in Fiji and neuroglancer, and the help that lists them. */
import { PLANES } from "./geometry.js";

/* [keys as shown, what they do]; the mouse is listed here as well. */
const HELP = [
	["click, drag", "set the crosshair"],
	["wheel", "previous and next slice (Shift: ten)"],
	["Ctrl + wheel", "zoom about the pointer"],
	["right drag", "pan; also middle button, or Space and drag"],
	["Shift + drag", "window: right wider, down to higher values"],
	["double click", "fit to the window"],
	["arrows", "move the crosshair in the plane (Shift: ten voxels)"],
	["PgUp, PgDn", "next and previous slice (Shift: ten)"],
	[", .  and  < >", "previous and next slice, ten slices"],
	["Home, End", "first and last slice"],
	["+ −", "zoom in and out"],
	["0", "fit to the window"],
	["1 2 3", "enlarge a plane; again, or 4: all planes"],
	["\\", "play through the slices, stop"],
	["x, l, r", "crosshair, line, rectangle tool"],
	["Escape", "remove line and rectangle"],
	["a, f", "automatic window, full range"],
	["i", "invert the colours"],
	["c, k", "crosshair, scale and colour bars on and off"],
	["v", "volume rendering"],
	["b", "switch between the two volumes"],
	["m, d", "side by side, difference"],
	["s", "save as PNG"],
	["t", "light or dark page"],
	["?", "this help"],
];

export function fillHelp(box) {
	for (const [keys, text] of HELP) {
		const row = document.createElement("div");
		for (const part of [keys, text])
			row.appendChild(document.createElement("span")).textContent = part;
		box.appendChild(row);
	}
}

/* Whether a control uses a key itself: text all of them, a slider those that move it. */
function takesKey(element, key) {
	if (element.tagName === "INPUT" && element.type === "range")
		return /^(Arrow|Page|Home|End)/.test(key);
	return /^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName) && element.type !== "checkbox";
}

export function listenToKeys(state, view, actions) {
	const slice = by => state.moveCross(state.active, by);
	const inPlane = (which, screen, amount) => {
		const axis = PLANES[state.active][which];
		const up = which === "v" && state.geometry.upwards(state.active);
		state.moveCross(axis, (up ? -screen : screen) * amount);
	};
	const toEnd = last => {
		const place = [...state.cross];
		place[state.active] = last ? state.shape[state.active] - 1 : 0;
		state.setCross(place);
	};
	const zoom = factor => state.zoomBy(factor, state.active, state.cross);
	const table = {
		ArrowLeft: n => inPlane("h", -1, n), ArrowRight: n => inPlane("h", 1, n),
		ArrowUp: n => inPlane("v", -1, n), ArrowDown: n => inPlane("v", 1, n),
		PageUp: n => slice(n), PageDown: n => slice(-n),
		".": n => slice(n), ",": n => slice(-n), ">": () => slice(10), "<": () => slice(-10),
		Home: () => toEnd(false), End: () => toEnd(true),
		"+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), "0": () => view.fit(),
		"1": () => actions.layout(0), "2": () => actions.layout(1), "3": () => actions.layout(2),
		"4": () => actions.layout("grid"), "\\": () => actions.play(),
		x: () => actions.tool("cross"), l: () => actions.tool("line"), r: () => actions.tool("region"),
		Escape: () => ["line", "region"].forEach(name => state.set(name, null, name)),
		a: () => view.autoWindow(), f: () => actions.fullWindow(), i: () => state.set("invert", !state.invert, "image"),
		c: () => state.set("showCross", !state.showCross, "view"), k: () => state.set("showScale", !state.showScale, "view"),
		v: () => actions.tab("render"), b: () => state.setMode(state.mode === "a" ? "b" : "a"),
		m: () => state.setMode("both"), d: () => state.setMode("difference"),
		s: () => actions.save(), t: () => actions.theme(), "?": () => actions.help(),
	};
	addEventListener("keydown", event => {
		if (takesKey(event.target, event.key) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
			return;
		const action = table[event.key] || table[event.key.toLowerCase()];
		if (!action)
			return;
		event.preventDefault();
		action(event.shiftKey ? 10 : 1);
	});
}
