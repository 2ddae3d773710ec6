/* Values along the line drawn on a plane: sampled at full resolution, plotted, saved as CSV. */
import { Axes, colour } from "./plot.js";
import { Drawn } from "./drawn.js";
import { PLANES } from "./geometry.js";
import { boxPath, fetchFloats } from "./tiles.js";
import { number } from "./format.js";
import { saveBlob, savePicture } from "./save.js";

const MOST_SAMPLES = 1 << 22; /* of the box around the line */

/* Points along the line, one per voxel of the longer direction, so that lines along an axis meet voxel centres. */
export function linePoints({ from, to }) {
	const steps = Math.max(1, ...from.map((f, a) => Math.abs(to[a] - f)));
	return Array.from({ length: steps + 1 }, (_, i) => from.map((f, a) => f + (to[a] - f) * i / steps));
}

/* The box of voxels around a line whose ends are indices of voxels, of every step-th voxel. */
function boxAround({ axis, from, to }) {
	const { h, v } = PLANES[axis], first = [...from], count = [1, 1, 1], step = [1, 1, 1];
	const extent = a => Math.abs(to[a] - from[a]) + 1;
	const apart = Math.max(1, Math.ceil(Math.sqrt(extent(h) * extent(v) / MOST_SAMPLES)));
	for (const a of [h, v]) {
		first[a] = Math.min(from[a], to[a]);
		step[a] = extent(a) > 1 ? apart : 1;
		count[a] = Math.floor((extent(a) - 1) / step[a]) + 1;
	}
	return { first, count, step, h, v };
}

/* Linear interpolation in the box. */
function interpolate(data, box, point) {
	const axis = a => {
		const t = Math.min(box.count[a] - 1, Math.max(0, (point[a] - box.first[a]) / box.step[a]));
		const i = Math.min(Math.floor(t), Math.max(0, box.count[a] - 2));
		return [i, t - i, box.count[a] > 1 ? 1 : 0];
	};
	const [x, fx, nx] = axis(box.h), [y, fy, ny] = axis(box.v), width = box.count[box.h];
	const at = (j, i) => data[j * width + i];
	const row = j => fx ? at(j, x) * (1 - fx) + at(j, x + nx) * fx : at(j, x);
	return fy ? row(y) * (1 - fy) + row(y + ny) * fy : row(y);
}

export class Profile extends Drawn {
	constructor(state, report) {
		super(state, report, "line");
		Object.assign(this, { data: null, hover: null });
		this.canvas = document.getElementById("profile");
		this.note = document.getElementById("profile-note");
		this.text = document.getElementById("profile-text");
		this.buttons = ["csv", "png", "clear"].map(name => document.getElementById(`profile-${name}`));
		this.buttons[0].addEventListener("click", () => saveBlob(new Blob([this.csv()], { type: "text/csv" }), "profile.csv"));
		this.buttons[1].addEventListener("click", () => savePicture(this.canvas, "profile.png"));
		this.buttons[2].addEventListener("click", () => this.remove());
		this.canvas.addEventListener("pointermove", event => this.point(event.offsetX));
		this.canvas.addEventListener("pointerleave", () => this.point(null));
		state.on("line", () => this.buttons.forEach(button => { button.disabled = !state.line; }));
		state.on("layout", () => this.draw());
		new ResizeObserver(() => this.draw()).observe(this.canvas);
	}

	measured(line, values) {
		this.data = line && { line, points: linePoints(line), distances: this.distances(line), values };
		this.draw();
	}

	/* Values of a file, NaN outside of it. The line is in indices of the first file. */
	async sample(index, line, signal) {
		const { shape } = this.state.files[index], slice = this.state.indexIn(index, line.axis, line.from[line.axis]);
		const own = linePoints(line).map(point => point.map((p, a) => {
			const { scale, shift } = this.state.maps[index][a];
			return a === line.axis ? slice : scale * p + shift;
		}));
		const within = point => point.every((p, a) => p >= -0.5 && p < shape[a] - 0.5), inside = own.filter(within);
		if (!inside.length)
			return own.map(() => NaN);
		const [start, stop] = [inside[0], inside.at(-1)], clip = (p, a) => Math.min(shape[a] - 1, Math.max(0, p));
		const from = shape.map((_, a) => clip(Math.floor(Math.min(start[a], stop[a])), a));
		const to = shape.map((_, a) => clip(Math.ceil(Math.max(start[a], stop[a])), a));
		const box = boxAround({ axis: line.axis, from, to });
		const data = await fetchFloats(boxPath(index, 0, box.first, box.count, box.step), signal);
		return own.map(point => within(point) ? interpolate(data, box, point) : NaN);
	}

	/* Distance from the first point, in the unit of the file where lengths have one. */
	get unit() {
		const { geometry, line } = this.state;
		if (geometry.projections)
			return line && line.axis === 0 && geometry.unit ? geometry.unit : "pixels";
		return geometry.unit || "voxels";
	}

	distances(line) {
		const { geometry } = this.state;
		const real = geometry.unit && !(geometry.projections && line.axis !== 0);
		const size = a => real ? geometry.voxel[a] : 1;
		return linePoints(line).map(p => Math.hypot(...p.map((c, a) => (c - line.from[a]) * size(a))));
	}

	/* Index of the point nearest to a column of the plot. */
	point(column) {
		this.hover = column === null || !this.data ? null : column;
		this.draw();
	}

	draw() {
		this.note.hidden = !!this.data;
		this.canvas.hidden = !this.data;
		if (!this.data) {
			this.text.textContent = "";
			return;
		}
		if (!this.canvas.clientWidth)
			return;
		const { distances, values } = this.data, all = values.flat().filter(Number.isFinite);
		let low = all.reduce((m, v) => Math.min(m, v), Infinity), high = all.reduce((m, v) => Math.max(m, v), -Infinity);
		if (!(high > low))
			[low, high] = all.length ? [low - 1, low + 1] : [0, 1];
		const margin = (high - low) * 0.06, valueUnit = this.state.files[0].value_unit;
		const axes = new Axes(this.canvas, { low: 0, high: distances.at(-1) || 1 }, { low: low - margin, high: high + margin },
			[`distance (${this.unit})`, valueUnit ? `value (${valueUnit})` : "value"]);
		axes.draw();
		values.forEach((list, i) => axes.curve(distances, list, colour(i ? "series-b" : "series-a")));
		this.describe(axes);
	}

	/* The text above the plot: the value under the mouse, or the length of the line. */
	describe(axes) {
		const { distances, values } = this.data;
		if (this.hover === null) {
			this.text.textContent = `length ${number(distances.at(-1), 5)} ${this.unit}`
				+ (values.length > 1 ? ",  A blue, B orange" : "");
			return;
		}
		const t = axes.valueAt(this.hover) / (distances.at(-1) || 1);
		const i = Math.min(distances.length - 1, Math.max(0, Math.round(t * (distances.length - 1))));
		const { context: c } = axes;
		values.forEach((list, k) => {
			const [x, y] = axes.place(distances[i], list[i]);
			c.fillStyle = colour(k ? "series-b" : "series-a");
			c.beginPath();
			c.arc(x, y, 4, 0, 7);
			c.fill();
		});
		const names = values.length > 1 ? ["A ", "B "] : [""];
		this.text.textContent = `at ${number(distances[i], 5)} ${this.unit}:  `
			+ values.map((list, k) => names[k] + (Number.isFinite(list[i]) ? number(list[i], 6) : "no value")).join("   ");
	}

	csv() {
		const { points, distances, values } = this.data, names = this.state.geometry.axisNames;
		const head = [`distance_${this.unit}`, names[2], names[1], names[0],
			...values.map((_, i) => values.length > 1 ? `value_${"ab"[i]}` : "value")];
		const rows = points.map((p, i) => [distances[i], p[2], p[1], p[0], ...values.map(list => list[i])]
			.map(v => Number(v.toPrecision(9))).join(","));
		return [head.join(","), ...rows, ""].join("\n");
	}
}
