/* From values to pixels: the inner loops of the planes. */
import { TILE } from "./tiles.js";

/* Runs of pixels whose voxels are in the same tile of `step` * TILE voxels: {tile, begin, end}. */
export function tileRuns(table, step) {
	const runs = [];
	let run = null;
	for (let p = 0; p < table.length; p++) {
		const tile = table[p] < 0 ? -1 : Math.floor(table[p] / (step * TILE));
		if (run && run.tile === tile) {
			run.end = p + 1;
			continue;
		}
		run = { tile, begin: p, end: p + 1 };
		if (tile >= 0)
			runs.push(run);
	}
	return runs;
}

/* Position in a tile of the sample that each pixel from begin to end shows. */
function positions(table, begin, end, step, first, count) {
	const list = new Int32Array(end - begin);
	for (let p = begin; p < end; p++)
		list[p - begin] = Math.min(count - 1, Math.max(0, Math.floor(table[p] / step) - first));
	return list;
}

function located(tile, pane, columns, rows) {
	return {
		data: tile.data,
		stride: tile.columns,
		x: positions(pane.columnTable(tile.index), columns.begin, columns.end, tile.stepH, tile.i * TILE, tile.columns),
		y: positions(pane.rowTable(tile.index), rows.begin, rows.end, tile.stepV, tile.j * TILE, tile.rows),
	};
}

/* Fills a rectangle of the picture from one tile, or with the difference of two. */
export function fillRectangle(picture, pane, columns, rows, tiles, window, lut) {
	const scale = 255 / (window.high - window.low), shift = 0.5 - window.low * scale;
	const [a, b] = tiles.map(tile => located(tile, pane, columns, rows));
	const { pixels, width } = picture, left = pane.left + columns.begin, count = columns.end - columns.begin;
	for (let y = rows.begin; y < rows.end; y++) {
		const from = a.y[y - rows.begin] * a.stride, to = y * width + left;
		const again = y > rows.begin && a.y[y - rows.begin - 1] === a.y[y - rows.begin];
		if (again && (!b || b.y[y - rows.begin - 1] === b.y[y - rows.begin]))
			pixels.copyWithin(to, to - width, to - width + count);
		else if (b)
			differenceRow(pixels, to, a, from, b, b.y[y - rows.begin] * b.stride, scale, shift, lut);
		else
			valueRow(pixels, to, a.data, from, a.x, scale, shift, lut);
	}
}

/* Values that are not numbers fail both comparisons and get the first colour. */
function valueRow(pixels, to, data, from, x, scale, shift, lut) {
	for (let i = 0; i < x.length; i++) {
		const t = data[from + x[i]] * scale + shift;
		pixels[to + i] = lut[t >= 255 ? 255 : t > 0 ? t | 0 : 0];
	}
}

function differenceRow(pixels, to, a, fromA, b, fromB, scale, shift, lut) {
	for (let i = 0; i < a.x.length; i++) {
		const t = (a.data[fromA + a.x[i]] - b.data[fromB + b.x[i]]) * scale + shift;
		pixels[to + i] = lut[t >= 255 ? 255 : t > 0 ? t | 0 : 0];
	}
}

/* Window of a list of values without a fraction `tail` at either end, as tomos show chooses it. */
export function windowOf(values, tail = 0.001) {
	const sorted = Float32Array.from(values).filter(Number.isFinite).sort();
	if (!sorted.length)
		return { low: 0, high: 1 };
	let low = sorted[Math.floor(tail * (sorted.length - 1))];
	let high = sorted[Math.ceil((1 - tail) * (sorted.length - 1))];
	if (low === high)
		[low, high] = [sorted[0], sorted[sorted.length - 1]];
	return { low, high: high > low ? high : low + 1 };
}
