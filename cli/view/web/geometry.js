/* Where voxels are on the screen: planes, orientation, real coordinates, display sizes. */

/* The plane across axis a shows axis h to the right and axis v downwards or upwards. */
export const PLANES = [{ h: 2, v: 1 }, { h: 2, v: 0 }, { h: 1, v: 0 }];

const THINNEST = 0.03; /* height over width below which a plane is not shown at first */

const VOLUME_NAMES = ["Axial xy", "Coronal xz", "Sagittal yz"];
const SCAN_NAMES = ["Projection", "Sinogram", "View and row"];
const VOLUME_AXES = ["z", "y", "x"];
const SCAN_AXES = ["view", "row", "column"];

/* Description of a file for the planes. Projections have axes view, row, column. */
export class Geometry {
	constructor(file, scan) {
		this.shape = file.shape;
		this.projections = file.content !== "volume";
		this.unit = file.unit || "";
		this.voxel = file.voxel.every(v => v > 0) ? file.voxel : [1, 1, 1];
		this.step = file.step; /* as `voxel`, with a sign: y often runs against its index */
		this.origin = file.origin;
		this.angles = scan && scan.angles.length === file.shape[0] ? scan.angles : null;
		this.spacing = this.projections ? scanSpacing(this) : this.voxel;
		this.axisNames = this.projections ? SCAN_AXES : VOLUME_AXES;
		this.planeNames = this.projections ? SCAN_NAMES : VOLUME_NAMES;
	}

	/* Rows of an image run down the screen. z and detector rows are drawn upwards, as in tomos show. */
	upwards(axis) {
		return this.projections ? axis === 0 : axis !== 0;
	}

	/* Planes that are more than a thin strip. */
	usefulPlanes() {
		const useful = [0, 1, 2].filter(a => {
			const [h, v] = [PLANES[a].h, PLANES[a].v].map(k => this.shape[k] * this.spacing[k]);
			return Math.min(h, v) > THINNEST * Math.max(h, v);
		});
		return useful.length ? useful : [0];
	}

	/* Real coordinate of an index along an axis, or null where there is none. */
	place(axis, index) {
		if (this.projections && axis === 0)
			return this.angles ? this.angles[Math.round(index)] : null;
		return this.unit ? this.origin[axis] + index * this.step[axis] : null;
	}

	placeText(axis, index) {
		const value = this.place(axis, index);
		if (value === null)
			return "";
		if (this.projections && axis === 0)
			return `${value.toFixed(2)}°`;
		return `${value.toFixed(decimals(this.voxel[axis]))} ${this.unit}`;
	}
}

/* Enough decimals to tell two voxels apart. */
function decimals(step) {
	return Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(step))));
}

/* Views have no length: a view is drawn as high as a pixel, or several, so that few views are visible. */
function scanSpacing(g) {
	const [, dv, du] = g.voxel;
	const widest = Math.max(g.shape[1], g.shape[2]);
	return [du * Math.max(1, Math.floor(widest / (1.5 * g.shape[0]))), dv, du];
}

/* Indices of file `to` from those of file `from`, per axis: scale * index + shift. Files of one shape are compared
 * voxel by voxel, others by their coordinates, or by their extent where they have none. */
export function indexMap(from, to) {
	return from.shape.map((n, a) => {
		if (to.shape.every((m, k) => m === from.shape[k]))
			return { scale: 1, shift: 0 };
		if (from.unit && from.unit === to.unit && !from.projections)
			return { scale: from.step[a] / to.step[a], shift: (from.origin[a] - to.origin[a]) / to.step[a] };
		const scale = to.shape[a] / n;
		return { scale, shift: 0.5 * scale - 0.5 };
	});
}

/* One axis of a plane on the screen: pixel p shows voxel (p + 0.5 - middle) / scale + centre. */
export class Ruler {
	constructor(pixels, centre, scale, upwards, count) {
		Object.assign(this, { pixels, centre, scale: upwards ? -scale : scale, count });
	}
	voxel(pixel) { return this.centre + (pixel + 0.5 - this.pixels / 2) / this.scale; }
	pixel(voxel) { return (voxel - this.centre) * this.scale + this.pixels / 2 - 0.5; }
	/* Index of the voxel shown by a pixel, -1 outside. */
	index(pixel) {
		const i = Math.floor(this.voxel(pixel) + 0.5);
		return i >= 0 && i < this.count ? i : -1;
	}
	/* Indices of all pixels. */
	table() {
		const list = new Int32Array(this.pixels);
		for (let p = 0; p < this.pixels; p++)
			list[p] = this.index(p);
		return list;
	}
}
