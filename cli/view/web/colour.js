/* Colour maps as tables of 256 pixels, computed here. */

/* OKLCh (lightness, chroma, hue in degrees) to sRGB bytes; Ottosson's OKLab matrices. */
function oklch(L, C, degrees) {
	const a = C * Math.cos(degrees * Math.PI / 180), b = C * Math.sin(degrees * Math.PI / 180);
	const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
	const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
	const s = (L - 0.0894841775 * a - 1.2914855480 * b) ** 3;
	return [
		4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
		-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
		-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
	];
}

/* The colour with this lightness and hue whose chroma is at most C and which a screen can show. */
function screenColour(L, C, degrees) {
	let linear = oklch(L, C, degrees);
	for (let i = 0; i < 20 && linear.some(v => v < -1e-4 || v > 1.0001); i++) {
		C *= 0.9;
		linear = oklch(L, C, degrees);
	}
	return linear.map(v => {
		const u = Math.min(1, Math.max(0, v));
		return 255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055);
	});
}

const maps = {
	grey: { label: "Grey", colour: t => [255 * t, 255 * t, 255 * t] },
	/* Even steps of lightness from dark violet over green to yellow. */
	violet: { label: "Violet to yellow", colour: t => screenColour(0.22 + 0.7 * t, 0.17, 310 - 205 * t) },
	/* Black body: lightness even as well, warm hues. */
	warm: { label: "Warm", colour: t => screenColour(0.02 + 0.96 * t, 0.23 * Math.sin(Math.PI * t ** 0.8), 20 + 85 * t) },
	/* Blue below zero, white at zero, red above. */
	diverging: {
		label: "Blue, white, red",
		colour: t => {
			const d = Math.abs(2 * t - 1);
			return screenColour(0.985 - 0.5 * d, 0.24 * d ** 0.85, t < 0.5 ? 258 : 27);
		},
	},
};

export const mapNames = Object.keys(maps);
export const mapLabel = name => maps[name].label;

/* 256 pixels in the byte order of ImageData on little-endian machines, which browsers run on. */
export function lookupTable(name, invert) {
	const table = new Uint32Array(256);
	for (let i = 0; i < 256; i++) {
		const t = (invert ? 255 - i : i) / 255;
		const [r, g, b] = maps[name].colour(t).map(v => Math.round(Math.min(255, Math.max(0, v))));
		table[i] = (255 << 24 | b << 16 | g << 8 | r) >>> 0;
	}
	return table;
}
