/* What is drawn on a plane and measured there, a line or a rectangle: state[name] = { axis, from, to }. */
export class Drawn {
	constructor(state, report, name) {
		Object.assign(this, { state, report, name });
		state.on(name, () => this.changed());
		state.on("position", () => this.followSlice());
	}

	/* It stays in its plane and measures the slice that is shown there. */
	followSlice() {
		const { [this.name]: drawn, cross } = this.state;
		if (!drawn || drawn.from[drawn.axis] === cross[drawn.axis])
			return;
		const move = place => place.map((p, a) => a === drawn.axis ? cross[a] : p);
		this.state.set(this.name, { ...drawn, from: move(drawn.from), to: move(drawn.to) }, this.name);
	}

	remove() {
		this.state.set(this.name, null, this.name);
	}

	/* Takes the samples of all files and shows them: measured(drawn, samples), or measured(null). */
	async changed() {
		const { [this.name]: drawn } = this.state;
		this.controller?.abort();
		if (!drawn) {
			this.measured(null);
			return;
		}
		this.controller = new AbortController();
		const { signal } = this.controller, samples = [];
		try {
			for (const index of this.state.files.keys())
				samples.push(await this.sample(index, drawn, signal));
			this.measured(drawn, samples);
		} catch (error) {
			if (error.name !== "AbortError")
				this.report(error);
		}
	}
}
