/* What the page shows, and who is told when it changes. */
import { Geometry, indexMap, PLANES } from "./geometry.js";

export class State {
	constructor(info) {
		this.info = info;
		this.files = info.files;
		this.geometries = info.files.map(file => new Geometry(file, info.scan));
		this.geometry = this.geometries[0];
		this.shape = this.geometry.shape;
		this.maps = this.geometries.map(geometry => indexMap(this.geometry, geometry));
		this.cross = this.shape.map(n => Math.floor(n / 2));
		this.centre = this.shape.map(n => (n - 1) / 2);
		this.zoom = 1; /* screen (CSS) pixels per unit of display length */
		this.fitted = true; /* the zoom is that of view.fit: it follows the size of the window */
		this.active = this.geometry.usefulPlanes()[0];
		this.playing = null; /* axis along which slices are played */
		this.direction = [1, 1, 1]; /* in which slices were last scrolled */
		this.mode = this.twoFiles ? "both" : "a"; /* a, b, both, difference */
		this.window = windowAround(this.files[0]);
		this.differenceWindow = null;
		this.map = "grey";
		this.differenceMap = "diverging";
		this.invert = false;
		this.tool = "cross";
		this.line = null; /* {axis, from: [z, y, x], to: [z, y, x]} */
		this.region = null; /* likewise: opposite corners of a rectangle */
		this.layout = this.geometry.usefulPlanes().length > 1 ? "grid" : this.active;
		this.axisColumn = null; /* rotation axis tried on a scan */
		this.showCross = true;
		this.showScale = true;
		this.moved = 0; /* time of the last movement, for deferred fine pictures */
		this.listeners = new Map();
	}

	/* Names: position, view (zoom and centre), image (window, map, mode), line, region, tool, layout. */
	on(names, listener) {
		for (const name of names.split(" "))
			this.listeners.set(name, [...(this.listeners.get(name) || []), listener]);
	}

	emit(name) {
		for (const listener of this.listeners.get(name) || [])
			listener(name);
	}

	get twoFiles() { return this.files.length > 1; }
	get sameShape() { return this.twoFiles && this.files[1].shape.every((n, a) => n === this.shape[a]); }
	get currentWindow() {
		return this.mode === "difference" && this.differenceWindow ? this.differenceWindow : this.window;
	}
	get currentMap() { return this.mode === "difference" ? this.differenceMap : this.map; }

	/* The files as planes sample them. Means of a level and single voxels of a file without levels differ: for a difference
	 * of such files both are sampled alike. */
	get sampled() {
		if (this.mode !== "difference" || this.files[0].levels.length === this.files[1].levels.length)
			return this.files;
		return this.files.map(file => ({ ...file, levels: file.levels.slice(0, 1) }));
	}

	/* Index of a file along an axis for an index of the first file; -1 outside. */
	indexIn(file, axis, index) {
		const { scale, shift } = this.maps[file][axis], own = Math.floor(scale * index + shift + 0.5);
		return own >= 0 && own < this.files[file].shape[axis] ? own : -1;
	}

	/* Files shown in a plane from left to right; -1 is the difference. */
	panes() {
		return { a: [0], b: [1], both: [0, 1], difference: [-1] }[this.mode];
	}

	setCross(place) {
		const next = place.map((v, a) => Math.min(this.shape[a] - 1, Math.max(0, Math.round(v))));
		if (next.every((v, a) => v === this.cross[a]))
			return;
		for (let a = 0; a < 3; a++)
			if (next[a] !== this.cross[a])
				this.direction[a] = Math.sign(next[a] - this.cross[a]);
		this.cross = next;
		this.moved = performance.now();
		this.emit("position");
	}

	moveCross(axis, by) {
		const place = [...this.cross];
		place[axis] += by;
		this.setCross(place);
	}

	/* Zooms by a factor; `fixed` is the place that stays where it is on the screen of plane `axis`. */
	zoomBy(factor, axis = null, fixed = null) {
		const spacing = Math.min(...this.geometry.spacing);
		const next = Math.min(64 / spacing, Math.max(0.002 / spacing, this.zoom * factor));
		if (axis !== null && fixed)
			for (const a of [PLANES[axis].h, PLANES[axis].v])
				this.centre[a] = fixed[a] + (this.centre[a] - fixed[a]) * this.zoom / next;
		this.zoom = next;
		this.fitted = false;
		this.emit("view");
	}

	panBy(axis, by) {
		this.fitted = false;
		this.centre[axis] = Math.min(this.shape[axis], Math.max(-1, this.centre[axis] + by));
		this.emit("view");
	}

	setWindow(low, high) {
		if (!Number.isFinite(low) || !Number.isFinite(high))
			return;
		if (high <= low)
			high = low + Math.max(Math.abs(low) * 1e-6, 1e-30);
		const target = this.currentWindow;
		target.low = low;
		target.high = high;
		this.emit("image");
	}

	setMode(mode) {
		if (!this.twoFiles || (mode === "difference" && !this.sameShape) || mode === this.mode)
			return;
		this.mode = mode;
		this.emit("mode");
		this.emit("image");
	}

	set(name, value, event) {
		if (this[name] === value)
			return;
		this[name] = value;
		this.emit(event);
	}
}

/* The range that the server suggests; a zero that rounding made 1e-17 is zero. */
function windowAround(file) {
	const [low, high] = file.range, clean = v => Math.abs(v) < 1e-6 * (high - low) ? 0 : v;
	file.histogram.low = clean(file.histogram.low);
	return { low: clean(low), high: clean(high) };
}
