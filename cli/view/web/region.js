/* Numbers of a rectangle drawn on a plane: mean, standard deviation, smallest and largest value of its voxels. */
import { Drawn } from "./drawn.js";
import { PLANES } from "./geometry.js";
import { boxPath, fetchFloats } from "./tiles.js";
import { lengthText, number, withUnit } from "./format.js";

const MOST_SAMPLES = 1 << 22; /* of a rectangle; of a larger one, every n-th voxel both ways */

/* Of the finite values. The mean is subtracted before squaring, as values may be far from zero. */
export function measure(values) {
	let count = 0, sum = 0, squares = 0, low = Infinity, high = -Infinity;
	for (const v of values)
		if (Number.isFinite(v)) {
			count++;
			sum += v;
			low = Math.min(low, v);
			high = Math.max(high, v);
		}
	const mean = sum / count;
	for (const v of values)
		if (Number.isFinite(v))
			squares += (v - mean) ** 2;
	return { count, mean, deviation: count > 1 ? Math.sqrt(squares / (count - 1)) : 0, low, high, other: values.length - count };
}

export class Region extends Drawn {
	constructor(state, report) {
		super(state, report, "region");
		this.results = null;
		this.table = document.getElementById("region-table");
		this.note = document.getElementById("region-note");
		this.clear = document.getElementById("region-clear");
		this.size = document.getElementById("region-text");
		this.clear.addEventListener("click", () => this.remove());
		state.on("region", () => { this.clear.disabled = !state.region; });
	}

	measured(region, results = null) {
		this.results = results;
		this.show();
	}

	/* The voxels of a file; null where it has none there. */
	async sample(index, { axis, from, to }, signal) {
		const { h, v } = PLANES[axis], { shape } = this.state.files[index];
		const own = (a, p) => {
			const { scale, shift } = this.state.maps[index][a];
			return Math.round(scale * p + shift);
		};
		const first = [0, 0, 0], count = [1, 1, 1], step = [1, 1, 1];
		first[axis] = this.state.indexIn(index, axis, from[axis]);
		for (const a of [h, v]) {
			first[a] = Math.max(0, Math.min(own(a, from[a]), own(a, to[a])));
			count[a] = Math.min(shape[a] - 1, Math.max(own(a, from[a]), own(a, to[a]))) - first[a] + 1;
		}
		if (first[axis] < 0 || count[h] < 1 || count[v] < 1)
			return null;
		const apart = Math.max(1, Math.ceil(Math.sqrt(count[h] * count[v] / MOST_SAMPLES)));
		for (const a of [h, v]) {
			step[a] = Math.min(apart, count[a]);
			count[a] = Math.floor((count[a] - 1) / step[a]) + 1;
		}
		return { ...measure(await fetchFloats(boxPath(index, 0, first, count, step), signal)), apart };
	}

	sizeText({ axis, from, to }) {
		const { geometry } = this.state, ends = PLANES[axis];
		const counts = [ends.h, ends.v].map(a => Math.abs(to[a] - from[a]) + 1);
		const real = geometry.unit && !(geometry.projections && axis !== 0);
		const sides = [ends.h, ends.v].map((a, i) => lengthText(counts[i] * geometry.voxel[a], geometry.unit));
		return `${counts.join(" × ")} ${geometry.projections ? "pixels" : "voxels"}${real ? `, ${sides.join(" × ")}` : ""}`;
	}

	show() {
		const { results } = this, { region, files } = this.state;
		this.note.hidden = !!results;
		this.table.hidden = !results;
		this.size.textContent = region && results ? this.sizeText(region) : "";
		this.table.replaceChildren();
		const row = (name, values) => {
			const line = this.table.insertRow(), head = line.appendChild(document.createElement("th"));
			head.textContent = name;
			for (const value of values)
				line.insertCell().textContent = value;
		};
		if (!results)
			return;
		if (files.length > 1)
			row("", results.map((_, i) => "AB"[i]));
		const each = (name, digits = 6) => results.map((r, i) => !r || !r.count ? "none"
			: withUnit(number(r[name], digits), files[i].value_unit || ""));
		row("mean", each("mean"));
		row("standard deviation", each("deviation"));
		row("smallest", each("low"));
		row("largest", each("high"));
		row("values", results.map(r => !r ? "none" : `${r.count}${r.apart > 1 ? `, every ${r.apart}th both ways` : ""}`
			+ `${r.other ? `, ${r.other} not finite` : ""}`));
	}
}
