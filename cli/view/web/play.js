/* Playing through the slices of a plane. */

const PATIENCE_MS = 400; /* how long a slice that has not come holds the others up */

export class Player {
	constructor(state, view) {
		Object.assign(this, { state, view, running: false });
		this.button = document.getElementById("play");
		this.axis = document.getElementById("play-axis");
		this.speed = document.getElementById("play-speed");
		state.geometry.planeNames.forEach((name, axis) => {
			if (state.shape[axis] > 1 && state.geometry.usefulPlanes().includes(axis))
				this.axis.add(new Option(name, axis));
		});
		this.button.disabled = this.axis.disabled = !this.axis.length;
		this.button.addEventListener("click", () => this.toggle());
		this.axis.addEventListener("change", () => state.set("active", Number(this.axis.value), "active"));
	}

	toggle() {
		this.running = !this.running && !this.button.disabled;
		this.button.setAttribute("aria-pressed", this.running);
		this.button.setAttribute("aria-label", this.running ? "Stop" : "Play through the slices");
		this.state.playing = this.running ? Number(this.axis.value) : null;
		if (!this.running)
			return;
		this.state.set("active", this.state.playing, "active");
		this.due = this.last = performance.now();
		requestAnimationFrame(time => this.step(time));
	}

	step(time) {
		if (!this.running)
			return;
		const axis = this.state.playing = Number(this.axis.value), plane = this.view.planes[axis], apart = 1000 / this.rate();
		const here = !plane.visible || (plane.shown && plane.shown.slice === this.state.cross[axis]);
		if (time >= this.due && (here || time - this.last > PATIENCE_MS)) {
			const n = this.state.shape[axis], place = [...this.state.cross];
			place[axis] = (place[axis] + 1) % n;
			this.state.setCross(place);
			this.state.direction[axis] = 1;
			this.last = time;
			this.due = Math.max(this.due + apart, time - apart);
		}
		requestAnimationFrame(next => this.step(next));
	}

	rate() {
		const rate = Number(this.speed.value);
		return rate > 0 ? Math.min(120, rate) : 20;
	}
}
