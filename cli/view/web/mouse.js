/* Mouse on the planes: crosshair, slices, zoom, pan, window and level, profile line, region. */
import { PLANES } from "./geometry.js";

export class Mouse {
	constructor(state, view, readout) {
		Object.assign(this, { state, view, readout, drag: null, space: false, travel: 0 });
		for (const plane of view.planes)
			this.listen(plane);
		addEventListener("keydown", event => {
			const used = /^(INPUT|SELECT|BUTTON)$/.test(event.target.tagName) || document.querySelector("dialog[open]");
			if (event.key !== " " || used)
				return;
			this.hold(true);
			event.preventDefault();
		});
		/* The key may be released anywhere, outside of the window as well. */
		addEventListener("keyup", event => event.key === " " && this.hold(false));
		addEventListener("blur", () => this.hold(false));
	}

	/* With Space held down a drag pans, as in Fiji. */
	hold(down) {
		this.space = down;
		for (const plane of this.view.planes)
			plane.section.classList.toggle("pan", down);
	}

	listen(plane) {
		const { section } = plane;
		section.addEventListener("pointerenter", () => this.state.set("active", plane.axis, "active"));
		section.addEventListener("pointerdown", event => this.down(plane, event));
		section.addEventListener("pointermove", event => this.move(plane, event));
		section.addEventListener("pointerup", () => this.up());
		section.addEventListener("pointercancel", () => this.up());
		section.addEventListener("pointerleave", () => this.readout.leave());
		section.addEventListener("contextmenu", event => event.preventDefault());
		section.addEventListener("wheel", event => this.wheel(plane, event), { passive: false });
		section.addEventListener("dblclick", event => {
			if (event.target === plane.overlay && this.state.tool === "cross")
				this.view.fit();
		});
	}

	/* Point of an event within the section, in CSS pixels. */
	point(plane, event) {
		const box = plane.section.getBoundingClientRect();
		return [event.clientX - box.left - plane.section.clientLeft, event.clientY - box.top - plane.section.clientTop];
	}

	down(plane, event) {
		if (event.target !== plane.overlay)
			return;
		const [x, y] = this.point(plane, event);
		plane.section.setPointerCapture(event.pointerId);
		plane.section.focus({ preventScroll: true });
		this.state.set("active", plane.axis, "active");
		const kind = event.button !== 0 || this.space ? "pan"
			: event.shiftKey || event.altKey ? "window" : this.state.tool;
		this.drag = { kind, x, y, start: plane.placeAt(x, y).place, window: { ...this.state.currentWindow } };
		if (kind === "cross")
			this.state.setCross(this.drag.start);
		event.preventDefault();
	}

	move(plane, event) {
		const [x, y] = this.point(plane, event), { place, inside } = plane.placeAt(x, y);
		this.readout.show(plane, place, inside);
		if (!this.drag)
			return;
		if (this.drag.kind === "cross")
			this.state.setCross(place);
		else if (this.drag.kind === "pan")
			this.pan(plane, x, y);
		else if (this.drag.kind === "window")
			this.level(x, y);
		else
			this.draw(this.drag.kind, plane, place);
	}

	up() {
		this.drag = null;
	}

	pan(plane, x, y) {
		const { state, drag } = this, { h, v } = PLANES[plane.axis], { spacing } = state.geometry;
		const sign = state.geometry.upwards(plane.axis) ? -1 : 1;
		state.panBy(h, (drag.x - x) / (state.zoom * spacing[h]));
		state.panBy(v, sign * (drag.y - y) / (state.zoom * spacing[v]));
		Object.assign(drag, { x, y });
	}

	/* Right and left change the width of the window, up and down its middle, as in radiology. */
	level(x, y) {
		const { low, high } = this.drag.window, width = high - low, middle = (low + high) / 2;
		const half = width / 2 * Math.exp((x - this.drag.x) / 150), shift = (y - this.drag.y) / 250 * width;
		this.state.setWindow(middle + shift - half, middle + shift + half);
	}

	/* A line or a region, from voxel to voxel. */
	draw(what, plane, place) {
		const clip = p => p.map((c, a) => Math.min(this.state.shape[a] - 1, Math.max(0, Math.round(c))));
		this.state.set(what, { axis: plane.axis, from: clip(this.drag.start), to: clip(place) }, what);
	}

	/* The wheel changes the slice; with Ctrl it zooms about the pointer. */
	wheel(plane, event) {
		event.preventDefault();
		this.state.set("active", plane.axis, "active");
		const [x, y] = this.point(plane, event);
		/* With Shift, some browsers report a wheel as horizontal. */
		const delta = event.deltaY || (event.shiftKey ? event.deltaX : 0), amount = event.deltaMode === 1 ? delta * 33 : delta;
		if (event.ctrlKey || event.metaKey) {
			this.state.zoomBy(Math.exp(-Math.max(-120, Math.min(120, amount)) / 400), plane.axis, plane.placeAt(x, y).place);
			return;
		}
		/* A notch is 100 or 120, and a busy browser merges several; touch pads send many small amounts. */
		this.travel += amount;
		const notches = Math.sign(amount) * Math.max(1, Math.round(Math.abs(amount) / 100));
		const slices = Math.abs(amount) >= 50 ? notches : Math.trunc(this.travel / 30);
		if (slices) {
			this.travel = 0;
			this.state.moveCross(plane.axis, slices * (event.shiftKey ? 10 : 1));
		}
		this.readout.show(plane, plane.placeAt(x, y).place, plane.placeAt(x, y).inside);
	}
}
