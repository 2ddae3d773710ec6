/* Numbers, units and ticks as text. */

/* A value with `digits` significant digits, without a tail of zeros. */
export function number(value, digits = 5) {
	if (!Number.isFinite(value))
		return String(value);
	const size = Math.abs(value);
	if (size !== 0 && (size < 1e-4 || size >= 1e7))
		return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
	return String(Number(value.toPrecision(digits)));
}

export function withUnit(text, unit) {
	return unit ? `${text} ${unit}` : text;
}

/* The largest of 1, 2, 5 times a power of ten that is at most `length`. */
export function roundLength(length) {
	const power = 10 ** Math.floor(Math.log10(length));
	for (const factor of [5, 2])
		if (factor * power <= length)
			return factor * power;
	return power;
}

/* Round numbers between low and high, about `count` of them. */
export function ticks(low, high, count) {
	if (!(high > low))
		return [low];
	const raw = (high - low) / Math.max(1, count);
	let step = roundLength(raw);
	if ((high - low) / step > 1.6 * count)
		step *= step * 2 <= raw * 1.3 ? 2 : 2.5;
	const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
	const list = [];
	for (let i = first; i <= last; i++)
		list.push(Number((i * step).toPrecision(12)));
	return list;
}

/* Length in a unit that keeps the number readable: 0.02 mm is 20 µm. */
export function lengthText(length, unit) {
	if (unit === "mm" && length < 0.1)
		return `${number(length * 1000, 4)} µm`;
	if (unit === "mm" && length >= 1000)
		return `${number(length / 1000, 4)} m`;
	return withUnit(number(length, 4), unit || "voxels");
}
