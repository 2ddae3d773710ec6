/* The rotation axis of a scan: one slice, reconstructed by the server for the column that the slider says. */
import { fetchReply } from "./tiles.js";
import { lookupTable } from "./colour.js";
import { number } from "./format.js";
import { windowOf } from "./pixels.js";

const WAIT_MS = 30; /* after the last movement of the slider */

export class AxisPanel {
	constructor(state, report) {
		Object.assign(this, { state, report, scan: state.info.scan, slice: null, running: false });
		const get = id => document.getElementById(`axis-${id}`);
		for (const name of ["row", "value", "slider", "option", "note", "said", "slice", "reset"])
			this[`${name}Box`] = get(name);
		const { rows, columns, axis } = this.scan, reach = Math.max(10, Math.round(columns * 0.1));
		this.rowBox.max = rows - 1;
		Object.assign(this.slider, { min: Math.max(0, Math.round(axis) - reach), max: Math.min(columns - 1, Math.round(axis) + reach) });
		this.rowBox.value = this.row = state.cross[1];
		this.set(axis, false);
		if (this.scan.geometry)
			this.optionBox.title = "The file has a geometry of its own: tomos recon uses that, without --axis";
		this.chosen = false; /* by the user, so that a search does not change it any more */
		const choose = value => {
			this.chosen = true;
			this.set(value);
		};
		this.slider.addEventListener("input", () => choose(this.slider.valueAsNumber));
		this.valueBox.addEventListener("change", () => choose(this.valueBox.valueAsNumber));
		this.rowBox.addEventListener("change", () => this.setRow(this.rowBox.valueAsNumber));
		this.first = axis; /* what Reset goes back to */
		get("reset").addEventListener("click", () => this.set(this.first));
		get("copy").addEventListener("click", event => this.copy(event.currentTarget));
		state.on("position", () => this.follow());
		state.on("image layout", () => this.draw());
		new ResizeObserver(() => this.shown()).observe(this.sliceBox);
	}

	get slider() { return this.sliderBox; }
	get visible() { return this.sliceBox.clientWidth > 0; }

	/* Whether the picture is that of the row and axis chosen now. */
	get current() { return this.slice && this.slice.row === this.state.cross[1] && this.slice.axis === this.axis; }

	/* Row and axis may have changed while the panel was hidden. */
	shown() {
		if (this.visible && !this.running && !this.current)
			this.ask();
		this.draw();
	}

	get sought() { return this.scan.axis_known ? "direction of rotation" : "axis"; }

	/* What tomos recon searches for: the axis, where the file does not say it, and of fan and cone beams the direction of rotation. */
	async find() {
		if (this.searched || (this.scan.axis_known && !this.scan.point))
			return;
		this.searched = true;
		try {
			const reply = await (await fetchReply("./axis")).json();
			this.say(reply);
			if (this.scan.axis_known)
				this.set(this.axis, false); /* the option names the direction */
			else if (reply.axis === null)
				this.resetBox.title = `The axis was not found: ${reply.why}`;
			else
				this.found(Math.round(100 * reply.axis) / 100, reply.error);
		} catch (error) {
			this.report(error);
		}
	}

	/* What the search did, beside the column. */
	say({ axis, reversed, warning, why }) {
		this.reversed = reversed; /* the option to copy then has --reverse: recon need not search again */
		const lines = axis === null ? [`The ${this.sought} was not found: ${why}`] : [];
		if (reversed)
			lines.push("The angles are negated, as by tomos recon: opposite rays agree only if the rotation is reversed.");
		if (warning)
			lines.push(`Warning: ${warning}`);
		this.saidBox.textContent = lines.join(" ");
		this.saidBox.hidden = lines.length === 0;
	}

	found(axis, error) {
		const { columns } = this.scan, reach = Math.max(10, Math.round(columns * 0.1));
		this.first = axis;
		this.resetBox.title = `Back to the axis that was found: ${number(axis, 6)}${error === null ? "" : ` ± ${number(error, 2)}`}`;
		Object.assign(this.slider, { min: Math.max(0, Math.round(axis) - reach), max: Math.min(columns - 1, Math.round(axis) + reach) });
		this.set(this.chosen ? this.axis : axis);
	}

	async copy(button) {
		await navigator.clipboard.writeText(this.optionBox.textContent);
		button.textContent = "Copied";
		setTimeout(() => { button.textContent = "Copy"; }, 1200);
	}

	/* The row is that of the crosshair. */
	follow() {
		if (this.row === this.state.cross[1])
			return;
		this.rowBox.value = this.row = this.state.cross[1];
		this.ask();
	}

	/* A box that was emptied gets its value back. */
	setRow(row) {
		if (Number.isFinite(row))
			this.state.setCross([this.state.cross[0], row, this.state.cross[2]]);
		this.rowBox.value = this.state.cross[1];
	}

	set(axis, ask = true) {
		if (Number.isFinite(axis))
			this.axis = Math.min(this.scan.columns, Math.max(-1, axis));
		this.slider.value = this.axis;
		this.state.set("axisColumn", this.axis, "axis");
		this.valueBox.value = number(this.axis, 7);
		/* tomos recon takes no --axis for a file that has its geometry. */
		this.optionBox.textContent = `${this.scan.geometry ? "" : "--"}axis ${number(this.axis, 7)}${this.reversed ? " --reverse" : ""}`;
		if (ask)
			this.ask();
	}

	ask() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.request(), WAIT_MS);
	}

	/* One request at a time; where the slider has moved meanwhile, the next one follows. */
	async request() {
		if (this.running || !this.visible)
			return;
		this.running = true;
		if (this.scan.point && !this.searched) { /* the first picture depends on the result */
			this.noteBox.textContent = `searching for the ${this.sought}…`;
			await this.find();
		}
		const row = this.state.cross[1], { axis } = this;
		this.noteBox.textContent = this.slice ? "" : "reconstructing…";
		try {
			const reply = await fetchReply(`./slice?row=${row}&axis=${axis}`);
			const [ny, nx] = reply.headers.get("X-Shape").split(",").map(Number);
			const data = new Float32Array(await reply.arrayBuffer());
			/* The window of a row stays, so that pictures of several axes can be compared. */
			const window = this.slice && this.slice.row === row ? this.slice.window
				: windowOf(data.filter((_, i) => i % 7 === 0), 0.002);
			this.slice = { row, axis, ny, nx, data, window };
			this.noteBox.textContent = "";
			this.draw();
			this.find();
		} catch (error) {
			this.noteBox.textContent = error.message;
			this.report(error);
		} finally {
			this.running = false;
			if (row !== this.state.cross[1] || axis !== this.axis)
				this.ask();
		}
	}

	draw() {
		if (!this.slice || !this.visible)
			return;
		const { ny, nx, data, window: { low, high } } = this.slice, scale = 255 / (high - low);
		const lut = lookupTable(this.state.map, this.state.invert), picture = document.createElement("canvas");
		Object.assign(picture, { width: nx, height: ny });
		const image = new ImageData(nx, ny), pixels = new Uint32Array(image.data.buffer);
		for (let i = 0; i < pixels.length; i++) {
			const t = (data[i] - low) * scale + 0.5;
			pixels[i] = lut[t >= 255 ? 255 : t > 0 ? t | 0 : 0];
		}
		picture.getContext("2d").putImageData(image, 0, 0);
		const ratio = window.devicePixelRatio || 1, canvas = this.sliceBox;
		canvas.width = Math.round(canvas.clientWidth * ratio);
		canvas.height = Math.round(canvas.clientHeight * ratio);
		const size = Math.min(canvas.width / nx, canvas.height / ny), context = canvas.getContext("2d");
		context.imageSmoothingQuality = "high";
		context.drawImage(picture, (canvas.width - nx * size) / 2, (canvas.height - ny * size) / 2, nx * size, ny * size);
	}
}
