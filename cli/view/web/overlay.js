/* What is drawn over a plane: crosshair, profile line, region, scale bar, colour bar, names of the files. */
import { PLANES } from "./geometry.js";
import { lookupTable } from "./colour.js";
import { lengthText, number, roundLength, ticks } from "./format.js";

const CROSS = "#ffd23f", LINE = "#4fd1ff", AXIS = "#5fe08a", DARK = "rgb(10 12 15 / 72%)", LIGHT = "#f4f6f8";

/* A line that is visible on bright and on dark pixels. */
function stroke(context, ratio, colour, path) {
	for (const [width, style] of [[2.6, "rgb(0 0 0 / 45%)"], [1.2, colour]]) {
		context.lineWidth = width * ratio;
		context.strokeStyle = style;
		context.beginPath();
		path();
		context.stroke();
	}
}

export function drawCross(context, pane, rulers, cross, { h, v }, ratio) {
	const x = pane.left + rulers.h.pixel(cross[h]) + 0.5, y = rulers.v.pixel(cross[v]) + 0.5, gap = 7 * ratio;
	const right = pane.left + pane.width, bottom = pane.height;
	context.globalAlpha = 0.85;
	stroke(context, ratio, CROSS, () => {
		for (const [x0, y0, x1, y1] of [[pane.left, y, x - gap, y], [x + gap, y, right, y], [x, 0, x, y - gap],
			[x, y + gap, x, bottom]]) {
			if (x1 < x0 || y1 < y0)
				continue;
			context.moveTo(Math.max(pane.left, x0), y0);
			context.lineTo(Math.min(right, x1), y1);
		}
	});
	context.globalAlpha = 1;
}

/* The rotation axis that the panel tries, in planes with columns to the right. */
function drawAxis(context, pane, rulers, column, ratio) {
	const x = pane.left + rulers.h.pixel(column) + 0.5;
	context.setLineDash([6 * ratio, 4 * ratio]);
	stroke(context, ratio, AXIS, () => {
		context.moveTo(x, 0);
		context.lineTo(x, pane.height);
	});
	context.setLineDash([]);
}

function drawLine(context, pane, rulers, line, { h, v }, ratio) {
	const point = place => [pane.left + rulers.h.pixel(place[h]) + 0.5, rulers.v.pixel(place[v]) + 0.5];
	const [x0, y0] = point(line.from), [x1, y1] = point(line.to);
	stroke(context, ratio, LINE, () => {
		context.moveTo(x0, y0);
		context.lineTo(x1, y1);
	});
	context.fillStyle = LINE;
	for (const [x, y, size] of [[x0, y0, 4], [x1, y1, 2.5]]) {
		context.beginPath();
		context.arc(x, y, size * ratio, 0, 7);
		context.fill();
	}
}

/* The rectangle goes around the voxels of its corners. */
function drawRegion(context, pane, rulers, region, { h, v }, ratio) {
	const edges = (ruler, a) => {
		const ends = [ruler.pixel(Math.min(region.from[a], region.to[a]) - 0.5), ruler.pixel(Math.max(region.from[a], region.to[a]) + 0.5)];
		return [Math.min(...ends) + 0.5, Math.max(...ends) + 0.5];
	};
	const [x0, x1] = edges(rulers.h, h), [y0, y1] = edges(rulers.v, v);
	stroke(context, ratio, LINE, () => context.rect(pane.left + x0, y0, x1 - x0, y1 - y0));
}

/* The colours of the values at the upper right, with the ends of the window and round values between them. */
export function drawColourBar(context, right, top, height, state, ratio) {
	const { low, high } = state.currentWindow, lut = lookupTable(state.currentMap, state.invert);
	const unit = state.files[0].value_unit || "", wide = 12 * ratio, margin = 8 * ratio, line = 15 * ratio;
	const inner = ticks(low, high, 3).filter(t => t > low + 0.12 * (high - low) && t < high - 0.12 * (high - low));
	const texts = [low, ...inner, high].map(v => [v, number(v, 4)]);
	context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
	const widest = Math.max(...texts.map(([, text]) => context.measureText(text).width), context.measureText(unit).width - wide - margin);
	const x = right - margin - wide, y = Math.round(top + margin + (unit ? line : 0) + line / 2);
	const bar = Math.max(2, Math.round(height - (unit ? line : 0) - line));
	context.fillStyle = DARK;
	context.fillRect(x - widest - 2 * margin, top, widest + wide + 3 * margin, height + 2 * margin);
	for (let i = 0; i < bar; i++) {
		const colour = lut[Math.round(255 * (1 - i / (bar - 1)))];
		context.fillStyle = `rgb(${colour & 255} ${colour >> 8 & 255} ${colour >> 16 & 255})`;
		context.fillRect(x, y + i, wide, 1);
	}
	context.fillStyle = LIGHT;
	context.textAlign = "right";
	context.textBaseline = "middle";
	for (const [value, text] of texts)
		context.fillText(text, x - margin, y + (1 - (value - low) / (high - low)) * bar);
	if (unit)
		context.fillText(unit, right - margin, top + margin + line / 4);
}

/* A bar of round length at the lower left; `perUnit` is pixels per unit of length. */
export function drawScaleBar(context, left, bottom, width, perUnit, unit, ratio) {
	const length = roundLength(0.3 * width / perUnit), long = length * perUnit;
	if (!(long > 8 * ratio))
		return;
	const text = lengthText(length, unit), x = left + 12 * ratio, y = bottom - 12 * ratio;
	context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
	const wide = Math.max(long, context.measureText(text).width);
	context.fillStyle = DARK;
	context.fillRect(x - 6 * ratio, y - 21 * ratio, wide + 12 * ratio, 28 * ratio);
	context.fillStyle = LIGHT;
	context.fillRect(x, y, long, 3 * ratio);
	context.textAlign = "left";
	context.textBaseline = "alphabetic";
	context.fillText(text, x, y - 6 * ratio);
}

/* Pixels per length along the horizontal axis, and the unit; null where lengths mean nothing. */
export function scaleOf(plane) {
	const { geometry, zoom } = plane.state, { h } = PLANES[plane.axis];
	const perUnit = zoom * plane.ratio * geometry.spacing[h];
	if (geometry.projections && h === 0)
		return null;
	return geometry.unit ? [perUnit / geometry.voxel[h], geometry.unit]
		: [perUnit, geometry.projections ? "pixels" : "voxels"];
}

function drawName(context, pane, text, ratio) {
	context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
	context.textAlign = "right";
	context.textBaseline = "alphabetic";
	const wide = context.measureText(text).width, right = pane.left + pane.width - 8 * ratio;
	context.fillStyle = DARK;
	/* Above the box with the number of the slice. */
	context.fillRect(right - wide - 5 * ratio, pane.height - 58 * ratio, wide + 10 * ratio, 18 * ratio);
	context.fillStyle = LIGHT;
	context.fillText(text, right, pane.height - 45 * ratio);
}

export function drawOverlay(plane) {
	const { state, axis, ratio, overlay } = plane, context = overlay.getContext("2d"), ends = PLANES[axis];
	context.clearRect(0, 0, overlay.width, overlay.height);
	for (const pane of plane.panes) {
		const rulers = pane.rulers(0);
		context.save();
		context.beginPath();
		context.rect(pane.left, 0, pane.width, pane.height);
		context.clip();
		if (state.showCross)
			drawCross(context, pane, rulers, state.cross, ends, ratio);
		if (state.axisColumn !== null && axis !== 2)
			drawAxis(context, pane, rulers, state.axisColumn, ratio);
		if (state.line && state.line.axis === axis)
			drawLine(context, pane, rulers, state.line, ends, ratio);
		if (state.region && state.region.axis === axis)
			drawRegion(context, pane, rulers, state.region, ends, ratio);
		const scale = scaleOf(plane);
		if (state.showScale && scale)
			drawScaleBar(context, pane.left, pane.height, pane.width, scale[0], scale[1], ratio);
		if (state.twoFiles)
			drawName(context, pane, pane.file < 0 ? "A − B" : `${"AB"[pane.file]}: ${state.files[pane.file].name}`, ratio);
		context.restore();
	}
	if (state.showScale && plane.first)
		drawColourBar(context, overlay.width, 40 * ratio, Math.min(180 * ratio, 0.4 * overlay.height), state, ratio);
}
