/* What is drawn over a plane: crosshair, profile line, scale bar, names of the files. */
import { PLANES } from "./geometry.js";
import { lengthText, roundLength } from "./format.js";

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
	context.fillRect(right - wide - 5 * ratio, pane.height - 24 * ratio, wide + 10 * ratio, 18 * ratio);
	context.fillStyle = LIGHT;
	context.fillText(text, right, pane.height - 11 * ratio);
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
		const scale = scaleOf(plane);
		if (state.showScale && scale)
			drawScaleBar(context, pane.left, pane.height, pane.width, scale[0], scale[1], ratio);
		if (state.twoFiles)
			drawName(context, pane, pane.file < 0 ? "A − B" : `${"AB"[pane.file]}: ${state.files[pane.file].name}`, ratio);
		context.restore();
	}
}
