/* Histogram with handles for black and white, the numbers below it. */
import { colour, prepare } from "./plot.js";
import { number } from "./format.js";

const GRIP = 9; /* distance in pixels from which a handle is taken */
const PAD = 10;

/* Counts of values in 128 bins, without those that are not numbers. */
function countValues(all) {
	const values = all.filter(Number.isFinite);
	let low = Infinity, high = -Infinity;
	for (const v of values) {
		low = Math.min(low, v);
		high = Math.max(high, v);
	}
	if (!(high > low))
		return { low: -1, high: 1, counts: [0] };
	const counts = new Array(128).fill(0);
	for (const v of values)
		counts[Math.min(127, Math.floor((v - low) / (high - low) * 128))]++;
	return { low, high, counts };
}

export class Histogram {
	constructor(state, view) {
		Object.assign(this, { state, view, log: true, drag: null });
		this.canvas = document.getElementById("histogram");
		this.low = document.getElementById("window-low");
		this.high = document.getElementById("window-high");
		this.canvas.addEventListener("pointerdown", event => this.down(event));
		this.canvas.addEventListener("pointermove", event => this.move(event));
		for (const name of ["pointerup", "pointercancel"])
			this.canvas.addEventListener(name, () => { this.drag = null; this.draw(); });
		for (const input of [this.low, this.high])
			input.addEventListener("change", () => this.typed());
		document.getElementById("window-auto").addEventListener("click", () => view.autoWindow());
		document.getElementById("window-full").addEventListener("click", () => this.full());
		document.getElementById("histogram-log").addEventListener("click", event => {
			this.log = !this.log;
			event.currentTarget.setAttribute("aria-pressed", this.log);
			this.draw();
		});
		state.on("image layout", () => this.draw());
		new ResizeObserver(() => this.draw()).observe(this.canvas);
	}

	histograms() {
		if (this.state.mode === "difference")
			return [this.difference || { low: -1, high: 1, counts: [0] }];
		return this.state.files.map(file => file.histogram);
	}

	/* The difference is known only where it was shown. */
	countDifference() {
		this.difference = countValues(this.view.values());
		this.draw();
	}

	full() {
		const list = this.histograms();
		this.state.setWindow(Math.min(...list.map(h => h.low)), Math.max(...list.map(h => h.high)));
	}

	typed() {
		const low = Number(this.low.value), high = Number(this.high.value);
		if (this.low.value.trim() && this.high.value.trim() && Number.isFinite(low) && Number.isFinite(high) && low < high)
			this.state.setWindow(low, high);
		this.draw(true);
	}

	/* Range of values of the canvas: the histograms, and the window where it is wider. */
	range() {
		if (this.drag)
			return this.drag.range;
		const list = this.histograms(), { low, high } = this.state.currentWindow;
		return [Math.min(low, ...list.map(h => h.low)), Math.max(high, ...list.map(h => h.high))];
	}

	column(value) {
		const [low, high] = this.range();
		return PAD + (value - low) / (high - low) * (this.canvas.clientWidth - 2 * PAD);
	}

	value(column) {
		const [low, high] = this.range();
		return low + (column - PAD) / (this.canvas.clientWidth - 2 * PAD) * (high - low);
	}

	down(event) {
		const { low, high } = this.state.currentWindow, x = event.offsetX;
		const toLow = Math.abs(x - this.column(low)), toHigh = Math.abs(x - this.column(high));
		const between = x > this.column(low) && x < this.column(high) && Math.min(toLow, toHigh) > GRIP;
		const part = between ? "both" : toLow < toHigh ? "low" : "high";
		this.drag = { part, value: this.value(x), low, high, range: this.range() };
		this.canvas.setPointerCapture(event.pointerId);
		if (part !== "both")
			this.move(event);
	}

	move(event) {
		if (!this.drag)
			return;
		const { part, low, high } = this.drag, value = this.value(event.offsetX), least = (high - low) * 1e-3;
		if (part === "low")
			this.state.setWindow(Math.min(value, high - least), high);
		else if (part === "high")
			this.state.setWindow(low, Math.max(value, low + least));
		else
			this.state.setWindow(low + value - this.drag.value, high + value - this.drag.value);
	}

	draw(always) {
		const { low, high } = this.state.currentWindow;
		for (const [input, value] of [[this.low, low], [this.high, high]])
			if (always || document.activeElement !== input)
				input.value = number(value, 5);
		if (!this.canvas.clientWidth)
			return;
		const { context: c, width, height } = prepare(this.canvas);
		c.fillStyle = colour("plot");
		c.fillRect(0, 0, width, height);
		this.histograms().forEach((h, i) => h && this.drawCounts(c, h, height - 20, i));
		this.drawHandles(c, height - 20);
		this.drawEnds(c, width, height);
	}

	/* The first file as bars, a second one as a curve over them. */
	drawCounts(c, histogram, height, index) {
		const { low, high, counts } = histogram, scale = v => this.log ? Math.log1p(v) : v;
		const most = scale(counts.reduce((m, v) => Math.max(m, v), 1)), each = (high - low) / counts.length;
		c.beginPath();
		c.moveTo(this.column(low), height);
		counts.forEach((count, i) => {
			const y = height - scale(count) / most * (height - 8);
			c.lineTo(this.column(low + i * each), y);
			c.lineTo(this.column(low + (i + 1) * each), y);
		});
		c.lineTo(this.column(high), height);
		c.fillStyle = colour("bars");
		c.strokeStyle = colour("series-b");
		c.lineWidth = 1.2;
		if (index)
			c.stroke();
		else
			c.fill();
	}

	drawHandles(c, height) {
		const { low, high } = this.state.currentWindow, [x0, x1] = [this.column(low), this.column(high)];
		c.strokeStyle = c.fillStyle = colour("accent");
		c.lineWidth = 2;
		c.beginPath();
		c.moveTo(x0, height);
		c.lineTo(x1, 6);
		c.moveTo(x0, 0);
		c.lineTo(x0, height);
		c.moveTo(x1, 0);
		c.lineTo(x1, height);
		c.stroke();
		for (const x of [x0, x1]) {
			c.beginPath();
			c.roundRect(x - 4, height / 2 - 9, 8, 18, 3);
			c.fill();
		}
	}

	drawEnds(c, width, height) {
		const [low, high] = this.range(), unit = this.state.files[0].value_unit;
		c.fillStyle = colour("faint");
		c.textBaseline = "alphabetic";
		c.textAlign = "left";
		c.fillText(number(low, 4), PAD, height - 5);
		c.textAlign = "right";
		c.fillText(number(high, 4), width - PAD, height - 5);
		c.textAlign = "center";
		c.fillText(unit ? `value (${unit})` : "value", width / 2, height - 5);
	}
}
