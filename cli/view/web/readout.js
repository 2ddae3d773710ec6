/* Coordinates and value under the mouse, or at the crosshair while the mouse is elsewhere. */
import { number, withUnit } from "./format.js";
import { boxPath, fetchFloats } from "./tiles.js";

const REST_MS = 60; /* before the exact value is requested */

export class Readout {
	constructor(state, view) {
		Object.assign(this, { state, view, place: null, exact: new Map() });
		this.placeText = document.getElementById("status-place");
		this.valueText = document.getElementById("status-value");
		state.on("position", () => this.follow());
		state.on("drawn", () => this.update(this.place || state.cross));
	}

	/* Keys change the slice under a mouse that rests. */
	follow() {
		if (this.place)
			this.place[this.axis] = this.state.cross[this.axis];
		this.update(this.place || this.state.cross);
	}

	show(plane, place, inside) {
		this.axis = plane.axis;
		this.place = inside ? place.map(Math.round) : null;
		this.update(this.place || this.state.cross);
	}

	leave() {
		this.place = null;
		this.update(this.state.cross);
	}

	/* Coordinates in the order x, y, z, as people say them. */
	update(place) {
		const g = this.state.geometry, order = [2, 1, 0];
		const indices = order.map(a => `${g.axisNames[a]} ${place[a]}`).join("  ");
		const real = order.map(a => g.placeText(a, place[a])).filter(text => text).join(", ");
		this.placeText.textContent = (this.place ? "" : "crosshair  ") + indices + (real ? `   (${real})` : "");
		this.showValues(place);
	}

	showValues(place) {
		const values = this.state.files.map((file, index) => this.valueOf(index, place));
		const unit = this.state.files[0].value_unit || "";
		const text = v => v === null ? "…" : v.outside ? "outside" : withUnit((v.step > 1 ? "≈ " : "") + number(v.value, 6), unit);
		if (values.length === 1)
			this.valueText.textContent = `value ${text(values[0])}`;
		else
			this.valueText.textContent = `A ${text(values[0])}   B ${text(values[1])}`
				+ (values.every(v => v) && this.state.sameShape ? `   A − B ${number(values[0].value - values[1].value, 4)}` : "");
	}

	/* What the cache has; the voxel itself is requested where that is not exact. */
	valueOf(index, place) {
		const own = place.map((p, a) => this.state.indexIn(index, a, p)), key = `${index} ${own}`;
		if (own.includes(-1))
			return { outside: true };
		if (this.exact.has(key))
			return { value: this.exact.get(key), step: 1 };
		const found = this.view.cached(index, own);
		if (!found || found.step > 1)
			this.ask(index, own, key);
		return found;
	}

	ask(index, place, key) {
		this.waiting = this.waiting || new Map();
		this.waiting.set(index, { place, key });
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.request(), REST_MS);
	}

	async request() {
		const list = [...this.waiting];
		this.waiting.clear();
		this.controller?.abort();
		this.controller = new AbortController();
		const { signal } = this.controller;
		try {
			for (const [index, { place, key }] of list) {
				const [value] = await fetchFloats(boxPath(index, 0, place, [1, 1, 1], [1, 1, 1]), signal);
				if (this.exact.size > 5000)
					this.exact.clear();
				this.exact.set(key, value);
			}
			this.update(this.place || this.state.cross);
		} catch { /* aborted, or an error the planes report as well */ }
	}
}
