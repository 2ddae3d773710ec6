/* The three planes together: redraws once per frame what has changed, and keeps times of frames. */
import { lookupTable } from "./colour.js";
import { Plane } from "./plane.js";
import { windowOf } from "./pixels.js";
import { TileStore } from "./tiles.js";

const MOST_FRAMES = 2000; /* kept for measurements */

/* The section of a plane, copied from the page's template and put before it. */
function addSection(axis) {
	const template = document.getElementById("plane"), section = template.content.firstElementChild.cloneNode(true);
	section.dataset.axis = axis;
	section.querySelector(".whole").title = `Enlarge this plane, or show all (${axis + 1})`;
	template.before(section);
	return section;
}

export class View {
	constructor(state, report) {
		this.state = state;
		this.store = new TileStore(tile => this.arrived(tile.axis), report);
		this.frames = []; /* {time, axis, slice, complete} of each new slice that was drawn */
		this.images = new Set();
		this.overlays = new Set();
		const sections = [0, 1, 2].map(addSection);
		this.planes = sections.map((section, axis) => new Plane(section, axis, state, this.store));
		this.readColours();
		state.on("position", () => this.moved());
		state.on("view", () => this.all());
		state.on("image", () => this.restyle());
		state.on("mode", () => state.fitted && this.fit());
		state.on("line region tool layout axis", () => this.all());
		const observer = new ResizeObserver(() => this.resized());
		for (const section of sections)
			observer.observe(section);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readColours());
	}

	/* The background of the planes is part of the picture, so it is taken from the style sheet. */
	readColours() {
		const text = getComputedStyle(document.documentElement).getPropertyValue("--void").trim();
		const value = parseInt(text.slice(1), 16);
		this.background = (255 << 24 | (value & 255) << 16 | (value & 0xff00) | value >> 16) >>> 0;
		this.restyle();
	}

	restyle() {
		this.lut = lookupTable(this.state.currentMap, this.state.invert);
		this.all();
	}

	all() {
		for (const axis of [0, 1, 2])
			this.dirty(axis);
	}

	/* A new crosshair: the picture of a plane changes only with its slice. */
	moved() {
		for (const plane of this.planes) {
			if (!plane.shown || plane.shown.slice !== this.state.cross[plane.axis])
				this.images.add(plane.axis);
			this.overlays.add(plane.axis);
		}
		this.schedule();
	}

	/* A tile has come; one that was requested ahead changes nothing that is seen. */
	arrived(axis) {
		const { shown } = this.planes[axis];
		if (!shown || !shown.complete || shown.slice !== this.state.cross[axis])
			this.dirty(axis);
	}

	dirty(axis) {
		this.images.add(axis);
		this.overlays.add(axis);
		this.schedule();
	}

	resized() {
		for (const plane of this.planes)
			plane.resize();
		if (this.state.fitted)
			this.fit();
		this.state.emit("layout");
	}

	schedule() {
		if (!this.frame)
			this.frame = requestAnimationFrame(time => this.draw(time));
	}

	draw(time) {
		this.frame = 0;
		for (const axis of this.images) {
			const plane = this.planes[axis], before = plane.shown && plane.shown.slice;
			if (plane.draw(this.lut, this.background) && plane.shown.slice !== before)
				this.note({ time, axis, slice: plane.shown.slice, complete: plane.shown.complete });
			plane.want();
		}
		for (const plane of this.planes)
			plane.section.classList.toggle("stale", !!plane.shown && plane.shown.slice !== this.state.cross[plane.axis]);
		for (const axis of this.overlays)
			this.planes[axis].drawOverlay();
		this.images.clear();
		this.overlays.clear();
		this.state.emit("drawn");
	}

	note(frame) {
		this.frames.push(frame);
		if (this.frames.length > MOST_FRAMES)
			this.frames.shift();
	}

	/* True where the planes show what the state says, at the resolution of the screen. */
	get settled() {
		const waiting = this.frame || this.images.size;
		return !waiting && this.planes.every(plane => !plane.visible || (plane.shown && plane.shown.complete
			&& plane.shown.slice === this.state.cross[plane.axis]));
	}

	/* Zoom and centre at which all visible planes fit. */
	fit() {
		const { state } = this, { spacing, shape } = state.geometry;
		let zoom = Infinity;
		for (const plane of this.planes.filter(p => p.visible)) {
			const { h, v } = { h: plane.axis === 2 ? 1 : 2, v: plane.axis === 0 ? 1 : 0 };
			const width = plane.section.clientWidth / (state.mode === "both" ? 2 : 1);
			zoom = Math.min(zoom, (width - 12) / (shape[h] * spacing[h]),
				(plane.section.clientHeight - 12) / (shape[v] * spacing[v]));
		}
		if (zoom > 0 && zoom < Infinity)
			state.zoom = zoom;
		state.centre = shape.map(n => (n - 1) / 2);
		state.fitted = true;
		state.emit("view");
	}

	/* Samples in the planes as they are shown, at most some 100 000. */
	values() {
		const list = [];
		for (const plane of this.planes.filter(p => p.visible))
			for (const pane of plane.panes)
				gather(plane, pane, list);
		return list;
	}

	autoWindow() {
		const values = this.values();
		if (!values.length)
			return;
		let { low, high } = windowOf(values);
		if (this.state.mode === "difference") /* white is zero */
			[low, high] = [-Math.max(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))];
		this.state.setWindow(low, high);
	}

	/* Value of a voxel from the cache: exact from a tile of all voxels, else approximate; null: not there. */
	cached(index, place) {
		let found = null;
		for (const plane of this.planes) {
			if (!plane.panes.length || plane.shown === null)
				continue;
			const value = plane.sample(index, place);
			if (value && (!found || value.step < found.step))
				found = value;
		}
		return found;
	}
}

function gather(plane, pane, list) {
	const apart = Math.max(1, Math.floor(Math.sqrt(pane.width * pane.height / 30000)));
	const rows = pane.rowTable(pane.files()[0]), columns = pane.columnTable(pane.files()[0]);
	for (let y = 0; y < rows.length; y += apart)
		for (let x = 0; x < columns.length; x += apart) {
			if (rows[y] < 0 || columns[x] < 0)
				continue;
			const place = plane.placeOf(rows[y], columns[x], pane.files()[0]);
			const found = pane.files().map(index => plane.sample(index, place));
			if (found.every(f => f))
				list.push(pane.file < 0 ? found[0].value - found[1].value : found[0].value);
		}
}
