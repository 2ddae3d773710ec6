/* One plane: its canvas, the tiles it needs, the picture. */
import { PLANES, Ruler } from "./geometry.js";
import { fillRectangle, tileRuns } from "./pixels.js";
import { drawOverlay } from "./overlay.js";
import { AHEAD, TILE, tileRequest } from "./tiles.js";

const COARSE = 2; /* the coarse picture has every 4th sample of the fine one both ways */
const MOST_COARSE = 7; /* how far to look for a coarser tile in the cache */
const MOST_AHEAD = 8; /* slices requested in the direction of scrolling */
const MOST_BACK = 12; /* slices to look back for one that has come */
const STILL_MS = 160; /* rest before fine pictures of expensive planes are requested */
const LARGE = 2 ** 27; /* voxels above which planes across y and x are expensive without levels */

/* A part of the canvas that shows one file, or the difference (file -1). */
class Pane {
	constructor(plane, file, left, width, height) {
		Object.assign(this, { plane, file, left, width, height, tables: new Map() });
	}

	/* Rulers of a file; the position of a second one follows from that of the first. */
	rulers(index) {
		const { state, axis } = this.plane, { h, v } = PLANES[axis];
		const ruler = (a, pixels, upwards) => {
			const { scale: own, shift } = state.maps[index][a], count = state.files[index].shape[a];
			const scale = state.zoom * this.plane.ratio * state.geometry.spacing[a] / own;
			return new Ruler(pixels, own * state.centre[a] + shift, scale, upwards, count);
		};
		return { h: ruler(h, this.width, false), v: ruler(v, this.height, state.geometry.upwards(axis)) };
	}

	tablesOf(index) {
		if (!this.tables.has(index)) {
			const { h, v } = this.rulers(index);
			this.tables.set(index, { columns: h.table(), rows: v.table() });
		}
		return this.tables.get(index);
	}
	columnTable(index) { return this.tablesOf(index).columns; }
	rowTable(index) { return this.tablesOf(index).rows; }

	/* Largest powers of two that still give a sample for each pixel. */
	steps(index) {
		const { h, v } = this.rulers(index);
		return [h, v].map(r => {
			const step = 2 ** Math.max(0, Math.floor(Math.log2(1 / Math.abs(r.scale)) + 1e-9));
			return Math.min(step, 2 ** Math.floor(Math.log2(r.count)));
		});
	}

	files() { return this.file < 0 ? [0, 1] : [this.file]; }
}

export class Plane {
	constructor(section, axis, state, store) {
		Object.assign(this, { section, axis, state, store });
		this.image = section.querySelector("canvas.image");
		this.overlay = section.querySelector("canvas.overlay");
		this.context = this.image.getContext("2d");
		this.shown = null; /* slice in the picture, and whether it is fine */
		this.panes = [];
		this.resize();
	}

	resize() {
		this.ratio = window.devicePixelRatio || 1;
		const width = Math.round(this.section.clientWidth * this.ratio);
		const height = Math.round(this.section.clientHeight * this.ratio);
		if (!width || !height || (width === this.image.width && height === this.image.height))
			return;
		for (const canvas of [this.image, this.overlay])
			Object.assign(canvas, { width, height });
		this.data = this.context.createImageData(width, height);
		this.picture = { pixels: new Uint32Array(this.data.data.buffer), width, height };
	}

	get visible() { return this.section.clientWidth > 0; }
	/* Whether this plane is the one with the colour bar. */
	get first() { return this.axis === 0 || this.state.layout === this.axis; }

	layOut() {
		const files = this.state.panes(), { width, height } = this.image;
		const gap = files.length > 1 ? Math.round(2 * this.ratio) : 0;
		const each = Math.floor((width - gap * (files.length - 1)) / files.length);
		this.panes = files.map((file, i) => new Pane(this, file, i * (each + gap), each, height));
	}

	/* Slice of a file at the crosshair, or `offset` slices of the first file from it; -1 outside of the file. */
	slice(index, offset = 0) {
		const last = this.state.shape[this.axis] - 1, at = this.state.cross[this.axis] + offset;
		return this.state.indexIn(index, this.axis, Math.min(last, Math.max(0, at)));
	}

	expensive(index) {
		const file = this.state.files[index];
		return this.axis !== 0 && file.levels.length === 1 && file.shape.reduce((p, n) => p * n, 1) > LARGE;
	}

	request(index, slice, steps, runs, coarser, priority) {
		const list = new Map();
		for (const row of runs.rows)
			for (const column of runs.columns) {
				const tile = tileRequest(this.state.sampled, index, this.axis, slice, steps[0] << coarser,
					steps[1] << coarser, column.tile >> coarser, row.tile >> coarser);
				list.set(tile.key, { ...tile, priority });
			}
		return [...list.values()];
	}

	/* Tells the store what this plane needs: coarse, then fine, then neighbours in the direction of scrolling. */
	want() {
		const list = [];
		for (const pane of this.visible ? this.panes : [])
			for (const index of pane.files()) {
				const steps = pane.steps(index), slice = this.slice(index);
				if (slice < 0)
					continue;
				const runs = {
					columns: tileRuns(pane.columnTable(index), steps[0]),
					rows: tileRuns(pane.rowTable(index), steps[1]),
				};
				const rest = this.expensive(index) ? STILL_MS - (performance.now() - this.state.moved) : 0;
				const fine = this.request(index, slice, steps, runs, 0, 1);
				if (!fine.every(tile => this.store.has(tile.key)))
					list.push(...this.request(index, slice, steps, runs, COARSE, 0));
				if (rest <= 0)
					list.push(...fine);
				else
					this.wantLater(rest);
				list.push(...this.ahead(index, slice, steps, runs));
			}
		this.store.want(this.axis, list);
	}

	ahead(index, slice, steps, runs) {
		const scrolled = this.axis === this.state.active || this.axis === this.state.playing;
		if (!scrolled || !this.state.moved)
			return [];
		const list = [], coarser = this.expensive(index) ? COARSE : 0;
		for (let k = 1; k <= MOST_AHEAD; k++) {
			const next = this.slice(index, k * this.state.direction[this.axis]);
			if (next !== slice && next >= 0)
				list.push(...this.request(index, next, steps, runs, coarser, AHEAD + k));
		}
		return list;
	}

	wantLater(ms) {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.want(), ms + 5);
	}

	/* The finest tile in the cache that covers tile (i, j). */
	best(index, slice, steps, i, j) {
		for (let k = 0; k <= MOST_COARSE; k++) {
			const { key } = tileRequest(this.state.sampled, index, this.axis, slice, steps[0] << k, steps[1] << k, i >> k, j >> k);
			if (this.store.has(key))
				return this.store.get(key);
		}
		return null;
	}

	/* Fills a pane at an offset of slices from the crosshair's. Returns tiles drawn, fine ones, and all. */
	fill(pane, offset, window, lut) {
		const files = pane.files(), result = { drawn: 0, fine: 0, all: 0 };
		const main = files[0], mainSteps = pane.steps(main);
		if (this.slice(main, offset) < 0)
			return result;
		const runs = {
			columns: tileRuns(pane.columnTable(main), mainSteps[0]),
			rows: tileRuns(pane.rowTable(main), mainSteps[1]),
		};
		for (const row of runs.rows)
			for (const column of runs.columns) {
				const tiles = files.map(index =>
					this.best(index, this.slice(index, offset), mainSteps, column.tile, row.tile));
				result.all++;
				if (tiles.some(tile => !tile))
					continue;
				result.drawn++;
				result.fine += tiles.every(tile => tile.stepH <= mainSteps[0] && tile.stepV <= mainSteps[1]);
				fillRectangle(this.picture, pane, column, row, tiles, window, lut);
			}
		return result;
	}

	/* Draws the slice of the crosshair; where nothing of it has come, the nearest one that has, back to the last drawn. */
	draw(lut, background) {
		if (!this.visible || !this.picture)
			return false;
		this.layOut();
		const slice = this.state.cross[this.axis], back = this.shown ? this.shown.slice - slice : 0;
		let result = this.drawAt(0, lut, background);
		for (let k = 1; !result.drawn && result.all && k <= Math.min(Math.abs(back), MOST_BACK); k++)
			result = this.drawAt(k * Math.sign(back), lut, background);
		if (!result.drawn && result.all && back)
			result = this.drawAt(back, lut, background);
		this.context.putImageData(this.data, 0, 0);
		if (result.drawn || !result.all)
			this.shown = { slice: slice + result.offset, complete: result.fine === result.all };
		else if (this.shown)
			this.shown.complete = false;
		return result.drawn > 0;
	}

	drawAt(offset, lut, background) {
		const total = { offset, drawn: 0, fine: 0, all: 0 };
		this.picture.pixels.fill(background);
		for (const pane of this.panes) {
			const part = this.fill(pane, offset, this.state.currentWindow, lut);
			for (const name of Object.keys(part))
				total[name] += part[name];
		}
		return total;
	}

	drawOverlay() {
		if (this.visible)
			drawOverlay(this);
	}

	/* Place (z, y, x, not rounded) under a point of the section in CSS pixels, and its pane. */
	placeAt(x, y) {
		const px = Math.floor(x * this.ratio), py = Math.floor(y * this.ratio);
		const pane = this.panes.find(p => px >= p.left && px < p.left + p.width) || this.panes[0];
		const { h, v } = PLANES[this.axis], place = [...this.state.cross];
		const rulers = pane.rulers(0);
		place[h] = rulers.h.voxel(px - pane.left);
		place[v] = rulers.v.voxel(py);
		const inside = [h, v].every(a => place[a] > -0.5 && place[a] < this.state.shape[a] - 0.5);
		return { place, inside, pane };
	}

	/* Place of row and column indices of a file in this plane. */
	placeOf(row, column, index) {
		const { h, v } = PLANES[this.axis], place = [0, 0, 0];
		place[this.axis] = this.slice(index);
		place[h] = column;
		place[v] = row;
		return place;
	}

	/* Value of a file at a voxel, from the finest tile in the cache: {value, step}, or null. */
	sample(index, place) {
		const pane = this.panes.find(p => p.files().includes(index)), { h, v } = PLANES[this.axis];
		if (!pane)
			return null;
		for (let k = 0, [stepH, stepV] = pane.steps(index); k <= MOST_COARSE; k++, stepH *= 2, stepV *= 2) {
			const x = Math.floor(place[h] / stepH), y = Math.floor(place[v] / stepV);
			const { key } = tileRequest(this.state.sampled, index, this.axis, place[this.axis], stepH, stepV,
				Math.floor(x / TILE), Math.floor(y / TILE));
			const tile = this.store.cache.get(key);
			if (!tile)
				continue;
			const column = Math.min(tile.columns - 1, x - tile.i * TILE), row = Math.min(tile.rows - 1, y - tile.j * TILE);
			return { value: tile.data[row * tile.columns + column], step: Math.max(stepH, stepV) };
		}
		return null;
	}
}
