/* Toolbar, tabs of the panel, layout of the planes, light and dark. */
import { mapLabel, mapNames } from "./colour.js";

const get = id => document.getElementById(id);
const press = (button, on) => button.setAttribute("aria-pressed", on);

export function connectToolbar(state, view, actions) {
	for (const button of document.querySelectorAll("[data-tool]"))
		button.addEventListener("click", () => actions.tool(button.dataset.tool));
	get("zoom-in").addEventListener("click", () => state.zoomBy(1.25, state.active, state.cross));
	get("zoom-out").addEventListener("click", () => state.zoomBy(0.8, state.active, state.cross));
	get("zoom-fit").addEventListener("click", () => view.fit());
	get("invert").addEventListener("click", () => state.set("invert", !state.invert, "image"));
	get("show-cross").addEventListener("click", () => state.set("showCross", !state.showCross, "view"));
	get("show-scale").addEventListener("click", () => state.set("showScale", !state.showScale, "view"));
	get("theme").addEventListener("click", actions.theme);
	get("help-open").addEventListener("click", actions.help);
	get("help-close").addEventListener("click", () => get("help").close());
	get("map").append(...mapNames.map(name => new Option(mapLabel(name), name)));
	get("map").addEventListener("change", event =>
		state.set(state.mode === "difference" ? "differenceMap" : "map", event.target.value, "image"));
	get("compare").hidden = !state.twoFiles;
	for (const button of document.querySelectorAll("[data-mode]"))
		button.addEventListener("click", () => state.setMode(button.dataset.mode));
	if (state.twoFiles && !state.sameShape) {
		const button = document.querySelector('[data-mode="difference"]');
		Object.assign(button, { disabled: true, title: "The volumes have different shapes" });
	}
	connectSlices(state);
	/* A control that was clicked gives the keys back to the planes. */
	get("toolbar").addEventListener("click", event => {
		if (event.detail > 0)
			event.target.closest("button")?.blur();
	});
	get("toolbar").addEventListener("change", event => event.target.tagName === "SELECT" && event.target.blur());
	state.on("view image tool position active layout", () => showState(state, view));
	showState(state, view);
}

function connectSlices(state) {
	for (const section of document.querySelectorAll(".plane")) {
		const axis = Number(section.dataset.axis), slider = section.querySelector(".slice");
		const box = section.querySelector(".index"), name = state.geometry.axisNames[axis];
		slider.max = box.max = state.shape[axis] - 1;
		slider.hidden = box.hidden = state.shape[axis] < 2;
		box.title = `${name}, 0 to ${box.max}`;
		box.setAttribute("aria-label", `Number of the slice: ${name} of the ${state.geometry.planeNames[axis]} plane`);
		slider.setAttribute("aria-label", `${state.geometry.axisNames[axis]} of the ${state.geometry.planeNames[axis]} plane`);
		slider.title = state.geometry.axisNames[axis];
		const choose = index => {
			const place = [...state.cross];
			place[axis] = index;
			state.setCross(place);
		};
		slider.addEventListener("input", () => choose(Number(slider.value)));
		/* A box that was emptied gets its number back; Enter gives the keys back to the planes. */
		box.addEventListener("change", () => {
			if (Number.isFinite(box.valueAsNumber))
				choose(box.valueAsNumber);
			box.value = state.cross[axis];
		});
		box.addEventListener("focus", () => state.set("active", axis, "active"));
		box.addEventListener("keydown", event => event.key === "Enter" && setTimeout(() => section.focus(), 0));
		section.setAttribute("aria-label", `${state.geometry.planeNames[axis]} plane`);
	}
}

/* What the controls show follows the state. */
function showState(state, view) {
	const { geometry } = state;
	for (const button of document.querySelectorAll("[data-tool]"))
		press(button, button.dataset.tool === state.tool);
	for (const button of document.querySelectorAll("[data-mode]"))
		press(button, button.dataset.mode === state.mode);
	press(get("invert"), state.invert);
	press(get("show-cross"), state.showCross);
	press(get("show-scale"), state.showScale);
	get("map").value = state.currentMap;
	const scale = state.zoom * (window.devicePixelRatio || 1) * geometry.spacing[2];
	get("zoom-value").textContent = `${(100 * scale).toPrecision(scale >= 10 ? 4 : 3).replace(/\.0+$/, "")} %`;
	for (const plane of view.planes) {
		const { axis, section } = plane, index = state.cross[axis], real = geometry.placeText(axis, index);
		section.classList.toggle("active", state.active === axis);
		section.querySelector(".slice").value = index;
		if (document.activeElement !== section.querySelector(".index"))
			section.querySelector(".index").value = index;
		section.querySelector(".name").textContent = `${geometry.planeNames[axis]}   ${geometry.axisNames[axis]} ${index}`
			+ `${state.shape[axis] > 1 ? ` / ${state.shape[axis] - 1}` : ""}${real ? `   ${real}` : ""}`;
	}
}

/* One plane or all of them, and the splitters. Returns a function that enlarges a plane or shows all. */
export function connectLayout(state, view) {
	const stage = get("stage");
	const apply = () => {
		stage.classList.toggle("single", state.layout !== "grid");
		for (const plane of view.planes)
			plane.section.classList.toggle("chosen", plane.axis === state.layout);
		for (const plane of view.planes)
			plane.resize();
		view.fit();
	};
	const choose = layout => {
		state.layout = state.layout === layout ? "grid" : layout;
		if (layout !== "grid")
			state.set("active", layout, "active");
		apply();
		state.emit("layout");
	};
	for (const plane of view.planes)
		plane.section.querySelector(".whole").addEventListener("click", () => choose(plane.axis));
	for (const name of ["x", "y"])
		connectSplitter(stage, name);
	if (state.info.scan && state.info.scan.live) /* the slice of the panel is as important as the plane */
		share(stage, "s", 55);
	apply();
	return choose;
}

/* Shares of the first and the second column or row, in percent: x and y with all planes, s with one. */
function share(stage, name, percent) {
	stage.style.setProperty(`--${name}`, `${percent}%`);
	stage.style.setProperty(`--${name}-first`, `${percent}fr`);
	stage.style.setProperty(`--${name}-second`, `${100 - percent}fr`);
}

function connectSplitter(stage, name) {
	const splitter = get(`split-${name}`);
	splitter.addEventListener("pointerdown", event => splitter.setPointerCapture(event.pointerId));
	splitter.addEventListener("pointermove", event => {
		if (!splitter.hasPointerCapture(event.pointerId))
			return;
		const box = stage.getBoundingClientRect();
		const part = name === "x" ? (event.clientX - box.left) / box.width : (event.clientY - box.top) / box.height;
		share(stage, stage.classList.contains("single") ? "s" : name, 100 * Math.min(0.85, Math.max(0.15, part)));
	});
}

/* Tabs of the panel. Returns a function that shows one. */
export function connectTabs(state, there) {
	const tabs = [...document.querySelectorAll("[data-tab]")];
	const show = name => {
		const tab = tabs.find(t => t.dataset.tab === name);
		if (tab.hidden)
			return;
		for (const t of tabs)
			t.setAttribute("aria-selected", t === tab);
		for (const page of document.querySelectorAll("[data-page]"))
			page.classList.toggle("chosen", page.dataset.page === name);
		state.emit("layout");
	};
	for (const tab of tabs) {
		tab.hidden = there[tab.dataset.tab] === false;
		tab.addEventListener("click", () => show(tab.dataset.tab));
	}
	show(there.axis ? "axis" : there.render ? "render" : "profile");
	return show;
}

/* The theme is the system's until one is chosen. */
const system = matchMedia("(prefers-color-scheme: dark)");
const setTheme = dark => { document.documentElement.dataset.theme = dark ? "dark" : "light"; };
const follow = () => setTheme(system.matches);
follow();
system.addEventListener("change", follow);

export function switchTheme() {
	system.removeEventListener("change", follow);
	setTheme(document.documentElement.dataset.theme !== "dark");
}
