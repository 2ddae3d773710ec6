/* Tiles of planes from ./box: which level and step, requests in order of need, a cache of limited size. */
import { PLANES } from "./geometry.js";

export const TILE = 512; /* samples along an edge */
const MOST_BYTES = 384 << 20; /* of the cache */
export const AHEAD = 10; /* priority from which requests are for slices that are not shown yet */
const MOST_REQUESTS = 5; /* browsers open six connections to a host; one is left for other requests */
const AGAIN_MS = 1500; /* after a connection or a server that failed */

/* Whether every n-th voxel of a level is every step-th of the file; other levels would shift or stretch a plane. */
function divides(factor, step) {
	const apart = Math.round(step / factor);
	return apart >= 1 && Math.abs(step / factor - apart) < 1e-3;
}

/* The coarsest level that has the samples for steps (h, v) of a plane. */
export function pickLevel(file, plane, stepH, stepV) {
	let level = file.levels[0];
	for (const candidate of file.levels)
		if (divides(candidate.factor[plane.h], stepH) && divides(candidate.factor[plane.v], stepV))
			level = candidate;
	return level;
}

/* Samples of one axis of a level at a step: number, first voxel and distance, in voxels of the level. */
function sampling(level, axis, step) {
	const apart = Math.max(1, Math.round(step / level.factor[axis])), n = level.shape[axis];
	const first = Math.min(n - 1, apart >> 1);
	return { apart, first, count: Math.floor((n - 1 - first) / apart) + 1 };
}

/* Tile (i, j) of the plane `axis` at `slice`, every stepH-th and stepV-th voxel. */
export function tileRequest(files, index, axis, slice, stepH, stepV, i, j) {
	const plane = PLANES[axis], level = pickLevel(files[index], plane, stepH, stepV);
	const h = sampling(level, plane.h, stepH), v = sampling(level, plane.v, stepV);
	/* The last tile also stands for voxels behind its last sample. */
	i = Math.min(i, Math.floor((h.count - 1) / TILE));
	j = Math.min(j, Math.floor((v.count - 1) / TILE));
	const columns = Math.min(TILE, h.count - i * TILE), rows = Math.min(TILE, v.count - j * TILE);
	const first = [0, 0, 0], count = [1, 1, 1], step = [1, 1, 1];
	first[axis] = Math.min(level.shape[axis] - 1, Math.floor(slice / level.factor[axis]));
	first[plane.h] = h.first + i * TILE * h.apart;
	first[plane.v] = v.first + j * TILE * v.apart;
	count[plane.h] = columns;
	count[plane.v] = rows;
	step[plane.h] = h.apart;
	step[plane.v] = v.apart;
	const key = `${index} ${level.level} ${axis} ${first[axis]} ${h.apart} ${v.apart} ${i} ${j}`;
	const path = boxPath(index, level.level, first, count, step);
	return { key, path, index, axis, i, j, columns, rows, stepH, stepV };
}

export function boxPath(file, level, first, count, step) {
	return `./box?file=${file}&level=${level}&first=${first}&count=${count}&step=${step}`;
}

/* The answer of the server, or an error with its message. */
export async function fetchReply(path, signal) {
	const reply = await fetch(path, { signal });
	if (reply.ok)
		return reply;
	let message = `${reply.status} ${reply.statusText}`;
	try {
		message = (await reply.json()).error || message;
	} catch { /* no JSON: the status is all there is */ }
	throw Object.assign(new Error(message), { status: reply.status });
}

/* Whether an error means that no answer came. Browsers have no other mark for it than these words. */
export function isLost(error) {
	return error instanceof TypeError && /^(failed to fetch|network ?error|load failed|error in (input|body) stream)/i.test(error.message);
}

export async function fetchFloats(path, signal) {
	return new Float32Array(await (await fetchReply(path, signal)).arrayBuffer());
}

export class TileStore {
	/* `arrived(tile)` is called for each tile, `failed(message)` for each error. */
	constructor(arrived, failed) {
		Object.assign(this, { arrived, failed });
		this.cache = new Map(); /* in order of last use */
		this.bytes = 0;
		this.most = MOST_BYTES;
		this.wanted = new Map(); /* group -> requests */
		this.running = new Map(); /* key -> {controller} */
		this.rejected = new Set(); /* keys the server rejects: not asked for again */
	}

	get(key) {
		const tile = this.cache.get(key);
		if (tile) {
			this.cache.delete(key);
			this.cache.set(key, tile);
		}
		return tile;
	}

	has(key) { return this.cache.has(key); }

	/* Replaces the requests of a group; each has a priority, the smallest first. */
	want(group, requests) {
		this.wanted.set(group, requests);
		this.start();
	}

	/* True where nothing with a priority below `limit` is missing. */
	settled(limit = AHEAD) {
		for (const list of this.wanted.values())
			for (const request of list)
				if (request.priority < limit && !this.has(request.key) && !this.rejected.has(request.key))
					return false;
		return true;
	}

	/* The tiles that are wanted (keys) and those not yet requested (open); tiles of later slices as far as they fit in half of the cache. */
	pending() {
		const open = [], keys = new Set(), all = [...this.wanted.values()].flat().sort((p, q) => p.priority - q.priority);
		let bytes = 0;
		for (const request of all) {
			bytes += 4 * request.rows * request.columns;
			if (request.priority >= AHEAD && bytes > this.most / 2)
				break;
			keys.add(request.key);
			if (!this.has(request.key) && !this.running.has(request.key) && !this.rejected.has(request.key))
				open.push(request);
		}
		return { open, keys };
	}

	start() {
		const { open, keys } = this.pending();
		/* What is no longer wanted gives way to what is; otherwise it may end and serve the cache. */
		for (const [key, run] of this.running) {
			if (this.running.size + open.length <= MOST_REQUESTS)
				break;
			if (!keys.has(key))
				this.abort(key, run);
		}
		for (const request of open) {
			if (this.running.size >= MOST_REQUESTS)
				break;
			if (!this.running.has(request.key))
				this.load(request);
		}
	}

	abort(key, run) {
		this.running.delete(key);
		run.controller.abort();
	}

	async load(request) {
		const run = { controller: new AbortController() };
		this.running.set(request.key, run);
		try {
			const data = await fetchFloats(request.path, run.controller.signal);
			if (data.length !== request.rows * request.columns)
				throw new Error(`${data.length} values came instead of ${request.rows * request.columns}`);
			this.keep({ ...request, data });
		} catch (error) {
			if (error.name === "AbortError")
				return;
			this.reject(request.key, error);
		} finally {
			if (this.running.get(request.key) === run)
				this.running.delete(request.key);
		}
		this.start();
	}

	/* What the server rejects is not asked for again; where it failed or did not answer it is, a little later. */
	reject(key, error) {
		this.rejected.add(key);
		this.failed(error);
		if (isLost(error) || error.status >= 500)
			setTimeout(() => {
				this.rejected.delete(key);
				this.start();
			}, AGAIN_MS);
	}

	keep(tile) {
		this.cache.set(tile.key, tile);
		this.bytes += tile.data.byteLength;
		if (this.bytes > this.most)
			this.evict();
		this.arrived(tile);
	}

	/* What is wanted stays, lest it is asked for again at once. */
	evict() {
		const { keys } = this.pending();
		for (const [key, old] of this.cache) {
			if (this.bytes <= this.most)
				break;
			if (keys.has(key))
				continue;
			this.cache.delete(key);
			this.bytes -= old.data.byteLength;
		}
	}
}
