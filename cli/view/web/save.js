/* Saving planes and plots as PNG. */
import { drawCross, drawScaleBar, scaleOf } from "./overlay.js";
import { fetchFloats, boxPath } from "./tiles.js";
import { PLANES, Ruler } from "./geometry.js";

const MOST_PIXELS = 1 << 26; /* of a whole plane, the limit of a request */

export function saveBlob(blob, name) {
	const link = document.createElement("a");
	link.href = URL.createObjectURL(blob);
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function savePicture(canvas, name) {
	return new Promise(resolve => canvas.toBlob(blob => {
		saveBlob(blob, name);
		resolve();
	}, "image/png"));
}

/* The plane as it is seen, with what was asked for on top. */
function seen(plane, options) {
	const canvas = document.createElement("canvas");
	Object.assign(canvas, { width: plane.image.width, height: plane.image.height });
	const context = canvas.getContext("2d"), scale = scaleOf(plane);
	context.drawImage(plane.image, 0, 0);
	for (const pane of plane.panes) {
		if (options.cross)
			drawCross(context, pane, pane.rulers(0), plane.state.cross, PLANES[plane.axis], plane.ratio);
		if (options.scale && scale)
			drawScaleBar(context, pane.left, pane.height, pane.width, scale[0], scale[1], plane.ratio);
	}
	return canvas;
}

async function wholeValues(state, axis) {
	const count = [...state.shape], first = [0, 0, 0];
	count[axis] = 1;
	first[axis] = state.cross[axis];
	const files = state.mode === "difference" ? [0, 1] : [state.mode === "b" ? 1 : 0];
	const data = await Promise.all(files.map(f => fetchFloats(boxPath(f, 0, first, count, [1, 1, 1]))));
	return data.length > 1 ? data[0].map((v, i) => v - data[1][i]) : data[0];
}

/* The whole plane of the first file, of the second one in mode B, or the difference; a pixel per voxel. */
async function whole(plane, view, options) {
	const { state, axis } = plane, { h, v } = PLANES[axis], width = state.shape[h], height = state.shape[v];
	if (width * height > MOST_PIXELS)
		throw new Error(`the plane has ${width} x ${height} pixels; at most ${MOST_PIXELS} can be saved at once`);
	if (state.mode === "b" && !state.sameShape)
		throw new Error("the second volume has another shape; save what is seen instead");
	/* As things are now, not when the values have come. */
	const cross = [...state.cross], { low, high } = state.currentWindow, { lut } = view, scale = 255 / (high - low);
	const values = await wholeValues(state, axis);
	const canvas = document.createElement("canvas");
	Object.assign(canvas, { width, height });
	const context = canvas.getContext("2d"), image = context.createImageData(width, height);
	const pixels = new Uint32Array(image.data.buffer), upwards = state.geometry.upwards(axis);
	for (let y = 0; y < height; y++)
		for (let x = 0, from = (upwards ? height - 1 - y : y) * width; x < width; x++) {
			const t = (values[from + x] - low) * scale + 0.5;
			pixels[y * width + x] = lut[t >= 255 ? 255 : t > 0 ? t | 0 : 0];
		}
	context.putImageData(image, 0, 0);
	const ratio = Math.max(1, width / 700), perVoxel = scaleOf(plane);
	const pane = { left: 0, width, height };
	const rulers = { h: new Ruler(width, (width - 1) / 2, 1, false, width), v: new Ruler(height, (height - 1) / 2, 1, upwards, height) };
	if (options.cross)
		drawCross(context, pane, rulers, cross, { h, v }, ratio);
	if (options.scale && perVoxel)
		drawScaleBar(context, 0, height, width, perVoxel[0] / (state.zoom * plane.ratio * state.geometry.spacing[h]), perVoxel[1], ratio);
	return canvas;
}

/* `render` is null where nothing is rendered. */
export class Saver {
	constructor(state, view, render, report) {
		Object.assign(this, { state, view, render, report });
		const get = id => document.getElementById(id);
		this.dialog = get("save-dialog");
		this.what = get("save-what");
		get("save").addEventListener("click", () => this.open());
		get("save-cancel").addEventListener("click", () => this.dialog.close());
		get("save-do").addEventListener("click", () => {
			this.dialog.close();
			this.save(this.what.value, {
				full: get("save-full").checked, scale: get("save-scale").checked, cross: get("save-cross").checked,
			});
		});
	}

	open() {
		this.what.replaceChildren(...this.state.geometry.planeNames.map((name, axis) => new Option(name, axis)));
		if (this.render)
			this.what.add(new Option("Volume rendering", "render"));
		this.what.value = this.state.active;
		this.dialog.showModal();
	}

	async save(what, options) {
		const base = this.state.files[this.state.mode === "b" ? 1 : 0].name.replace(/\.[^.]*$/, "");
		try {
			if (what === "render") {
				await savePicture(this.render.picture(), `${base}_3d.png`);
				return;
			}
			const axis = Number(what), plane = this.view.planes[axis];
			const name = `${base}_${this.state.geometry.axisNames[axis]}${this.state.cross[axis]}.png`;
			if (!options.full && !plane.visible)
				throw new Error("this plane is not shown; choose the whole plane, or show it");
			const canvas = options.full ? await whole(plane, this.view, options) : seen(plane, options);
			await savePicture(canvas, name);
		} catch (error) {
			this.report(error);
		}
	}
}
