/* Canvases of the panel: size, axes with ticks, curves. */
import { number, ticks } from "./format.js";

/* Gives a canvas the pixels of the screen and a context in CSS pixels. */
export function prepare(canvas) {
	const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
	canvas.width = Math.max(1, Math.round(width * ratio));
	canvas.height = Math.max(1, Math.round(height * ratio));
	const context = canvas.getContext("2d");
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.font = '12px system-ui, "DejaVu Sans", sans-serif';
	return { context, width, height };
}

export function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* A frame with axes: place(x, y) gives the point on the canvas. */
export class Axes {
	constructor(canvas, x, y, labels) {
		Object.assign(this, prepare(canvas), { canvas, x, y, labels });
		this.yTicks = ticks(y.low, y.high, Math.max(2, this.height / 45));
		this.context.fillStyle = colour("plot");
		this.context.fillRect(0, 0, this.width, this.height);
		const widest = Math.max(...this.yTicks.map(t => this.context.measureText(number(t, 4)).width));
		this.left = Math.ceil(widest) + 30;
		this.right = this.width - 14;
		this.top = 12;
		this.bottom = this.height - 38;
	}

	place(x, y) {
		return [
			this.left + (x - this.x.low) / (this.x.high - this.x.low) * (this.right - this.left),
			this.bottom - (y - this.y.low) / (this.y.high - this.y.low) * (this.bottom - this.top),
		];
	}

	/* The value on the x axis at a column of the canvas. */
	valueAt(column) {
		return this.x.low + (column - this.left) / (this.right - this.left) * (this.x.high - this.x.low);
	}

	draw() {
		const { context: c } = this;
		c.lineWidth = 1;
		c.fillStyle = colour("faint");
		c.strokeStyle = colour("line");
		c.textAlign = "center";
		c.textBaseline = "top";
		c.beginPath();
		for (const t of ticks(this.x.low, this.x.high, Math.max(2, (this.right - this.left) / 80))) {
			const [x] = this.place(t, 0);
			c.moveTo(Math.round(x) + 0.5, this.top);
			c.lineTo(Math.round(x) + 0.5, this.bottom);
			c.fillText(number(t, 4), x, this.bottom + 4);
		}
		c.textAlign = "right";
		c.textBaseline = "middle";
		for (const t of this.yTicks) {
			const [, y] = this.place(0, t);
			c.moveTo(this.left, Math.round(y) + 0.5);
			c.lineTo(this.right, Math.round(y) + 0.5);
			c.fillText(number(t, 4), this.left - 5, y);
		}
		c.stroke();
		c.strokeStyle = colour("faint");
		c.strokeRect(this.left + 0.5, this.top + 0.5, this.right - this.left, this.bottom - this.top);
		this.drawLabels();
	}

	drawLabels() {
		const { context: c } = this;
		c.fillStyle = colour("text");
		c.textAlign = "center";
		c.textBaseline = "alphabetic";
		c.fillText(this.labels[0], (this.left + this.right) / 2, this.height - 6);
		c.save();
		c.translate(13, (this.top + this.bottom) / 2);
		c.rotate(-Math.PI / 2);
		c.fillText(this.labels[1], 0, 0);
		c.restore();
	}

	curve(xs, ys, style) {
		const { context: c } = this;
		c.save();
		c.beginPath();
		c.rect(this.left, this.top, this.right - this.left, this.bottom - this.top);
		c.clip();
		c.beginPath();
		let pen = false;
		for (let i = 0; i < xs.length; i++) {
			const [x, y] = this.place(xs[i], ys[i]);
			if (Number.isFinite(y))
				c[pen ? "lineTo" : "moveTo"](x, y);
			pen = Number.isFinite(y);
		}
		c.strokeStyle = style;
		c.lineWidth = 1.6;
		c.lineJoin = "round";
		c.stroke();
		c.restore();
	}
}
