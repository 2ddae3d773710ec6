/* Volume rendering with WebGL2 of a level, or of every n-th voxel, that fits. */
import { FRAGMENT, VERTEX } from "./shaders.js";
import { fetchReply } from "./tiles.js";
import { lookupTable } from "./colour.js";

const PARTS = 8; /* requests for one volume, so that a part is seen early */

function compile(gl, kind, source) {
	const shader = gl.createShader(kind);
	gl.shaderSource(shader, source);
	gl.compileShader(shader);
	if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS))
		throw new Error(`shader: ${gl.getShaderInfoLog(shader)}`);
	return shader;
}

const product = (a, b) => a.map((_, i) => {
	const r = Math.floor(i / 3) * 3, c = i % 3;
	return a[r] * b[c] + a[r + 1] * b[c + 3] + a[r + 2] * b[c + 6];
});
const aboutX = t => [1, 0, 0, 0, Math.cos(t), -Math.sin(t), 0, Math.sin(t), Math.cos(t)];
const aboutY = t => [Math.cos(t), 0, Math.sin(t), 0, 1, 0, -Math.sin(t), 0, Math.cos(t)];
/* The screen's right, up and towards the viewer are the object's x, z and minus y; then a little from above. */
const FRONT = product([1, 0, 0, 0, 0, -1, 0, 1, 0], product(aboutY(0.5), aboutX(-0.35)));

export class Render {
	constructor(state, view, report) {
		Object.assign(this, { state, view, report, turn: FRONT, zoom: 1, loaded: null, scheduled: false });
		const get = id => document.getElementById(id);
		this.canvas = get("render");
		this.note = get("render-note");
		this.kind = get("render-kind");
		this.opacity = get("render-opacity");
		for (const input of [this.kind, this.opacity])
			input.addEventListener("input", () => this.chosen());
		this.chosen();
		get("render-reset").addEventListener("click", () => {
			Object.assign(this, { turn: FRONT, zoom: 1 });
			this.schedule();
		});
		state.on("image", () => this.update());
		state.on("drawn", () => this.update());
		new ResizeObserver(() => this.schedule()).observe(this.canvas);
		this.listen();
		this.start();
	}

	get visible() { return this.canvas.clientWidth > 0; }

	chosen() {
		this.opacity.parentElement.hidden = this.kind.value === "0";
		this.schedule();
	}

	start() {
		const gl = this.gl = this.canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
		if (!gl) {
			this.note.textContent = "This browser has no WebGL2, so volumes cannot be rendered in 3-D here.";
			return;
		}
		const names = gl.getExtension("WEBGL_debug_renderer_info");
		const renderer = names ? gl.getParameter(names.UNMASKED_RENDERER_WEBGL) : "";
		this.software = /swiftshader|llvmpipe|software/i.test(renderer);
		const program = this.program = gl.createProgram();
		gl.attachShader(program, compile(gl, gl.VERTEX_SHADER, VERTEX));
		gl.attachShader(program, compile(gl, gl.FRAGMENT_SHADER, FRAGMENT));
		gl.linkProgram(program);
		gl.useProgram(program);
		gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
		gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 3, -1, -1, 3]), gl.STATIC_DRAW);
		const corner = gl.getAttribLocation(program, "corner");
		gl.enableVertexAttribArray(corner);
		gl.vertexAttribPointer(corner, 2, gl.FLOAT, false, 0, 0);
		gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
	}

	/* Loads the volume once the planes are there, so that they come first; again for another file. */
	update() {
		const file = this.state.mode === "b" ? 1 : 0;
		if (!this.gl || !this.visible)
			return;
		if (this.loaded !== file && this.view.settled)
			this.load(file);
		else if (this.style !== this.styleText())
			this.restyle();
	}

	/* Without a GPU a picture takes long: it waits until the window has come to rest. */
	restyle() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.schedule(), this.software ? 200 : 0);
	}

	styleText() {
		const { low, high } = this.state.window;
		return `${low} ${high} ${this.state.map} ${this.state.invert}`;
	}

	/* Coarsest level with at least `most` voxels along the longest axis, and the step that remains. */
	choose(file) {
		const most = this.software ? 128 : 256, { levels } = this.state.files[file];
		const fit = levels.filter(l => Math.max(...l.shape) >= most);
		const level = fit.length ? fit[fit.length - 1] : levels[0];
		const step = level.shape.map(n => Math.max(1, Math.ceil(n / most)));
		const count = level.shape.map((n, a) => Math.floor((n - 1) / step[a]) + 1);
		return { level: level.level, step, count };
	}

	async load(file) {
		this.loaded = file;
		this.controller?.abort();
		this.controller = new AbortController();
		const { signal } = this.controller, part = this.choose(file), { low, high } = this.state.files[file].histogram;
		const [nz, ny, nx] = part.count;
		this.range = { low, high: high > low ? high : low + 1 };
		this.allocate(nx, ny, nz);
		const each = Math.ceil(nz / PARTS);
		try {
			for (let z = 0; z < nz; z += each) {
				const slices = Math.min(each, nz - z);
				this.note.textContent = `loading ${Math.round(100 * z / nz)} %`;
				const path = `./box?file=${file}&level=${part.level}&first=${z * part.step[0]},0,0&count=${slices},${ny},${nx}`
					+ `&step=${part.step}&type=uint8&low=${low}&high=${this.range.high}`;
				const bytes = new Uint8Array(await (await fetchReply(path, signal)).arrayBuffer());
				this.gl.activeTexture(this.gl.TEXTURE0);
				this.gl.texSubImage3D(this.gl.TEXTURE_3D, 0, 0, 0, z, nx, ny, slices, this.gl.RED, this.gl.UNSIGNED_BYTE, bytes);
				this.schedule();
			}
			this.note.textContent = part.step.some(s => s > 1) || part.level ? `${nx} × ${ny} × ${nz} samples` : "";
		} catch (error) {
			if (error.name === "AbortError")
				return;
			this.note.textContent = "";
			this.report(error);
		}
	}

	allocate(nx, ny, nz) {
		const { gl } = this;
		gl.deleteTexture(this.texture);
		this.texture = gl.createTexture();
		gl.activeTexture(gl.TEXTURE0);
		gl.bindTexture(gl.TEXTURE_3D, this.texture);
		gl.texStorage3D(gl.TEXTURE_3D, 1, gl.R8, nx, ny, nz);
		for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R])
			gl.texParameteri(gl.TEXTURE_3D, side, gl.CLAMP_TO_EDGE);
		for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
			gl.texParameteri(gl.TEXTURE_3D, filter, gl.LINEAR);
	}

	setColours() {
		const { gl } = this, table = lookupTable(this.state.map, this.state.invert);
		this.colours = this.colours || gl.createTexture();
		gl.activeTexture(gl.TEXTURE1);
		gl.bindTexture(gl.TEXTURE_2D, this.colours);
		gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(table.buffer));
		for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T])
			gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
		for (const filter of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER])
			gl.texParameteri(gl.TEXTURE_2D, filter, gl.LINEAR);
		this.style = this.styleText();
	}

	schedule() {
		if (this.scheduled || !this.gl)
			return;
		this.scheduled = true;
		requestAnimationFrame(() => {
			this.scheduled = false;
			if (this.visible && this.texture)
				this.draw();
		});
	}

	/* Half the resolution while a drag goes on without a GPU. */
	draw() {
		const { gl, program, canvas } = this, coarse = this.software && this.dragging;
		const ratio = this.software ? (coarse ? 0.5 : 1) : window.devicePixelRatio || 1;
		canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
		canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
		this.setColours();
		gl.viewport(0, 0, canvas.width, canvas.height);
		const at = name => gl.getUniformLocation(program, name);
		const { shape, spacing } = this.state.geometries[this.loaded], size = [2, 1, 0].map(a => shape[a] * spacing[a]);
		const diagonal = Math.hypot(...size), across = 0.78 / this.zoom, shorter = Math.min(canvas.width, canvas.height);
		const { low, high } = this.range, width = high - low, { window: w } = this.state;
		gl.uniform3f(at("halfBox"), ...size.map(s => s / diagonal));
		gl.uniform2f(at("extent"), across * canvas.width / shorter, across * canvas.height / shorter);
		/* Uniform matrices are stored by columns. */
		const t = this.turn;
		gl.uniformMatrix3fv(at("rotation"), false, [t[0], t[3], t[6], t[1], t[4], t[7], t[2], t[5], t[8]]);
		gl.uniform2f(at("range"), (w.low - low) / width, (w.high - low) / width);
		gl.uniform1f(at("opacity"), Number(this.opacity.value));
		gl.uniform1i(at("steps"), coarse ? 110 : this.software ? 500 : 1000);
		gl.uniform1i(at("kind"), Number(this.kind.value));
		gl.uniform1i(at("volume"), 0);
		gl.uniform1i(at("colours"), 1);
		gl.drawArrays(gl.TRIANGLES, 0, 3);
	}

	picture() {
		if (!this.gl || !this.texture)
			throw new Error("nothing has been rendered yet; open the 3-D panel first");
		this.draw();
		return this.canvas;
	}

	listen() {
		const { canvas } = this;
		canvas.addEventListener("pointerdown", event => {
			this.dragging = [event.clientX, event.clientY];
			canvas.setPointerCapture(event.pointerId);
		});
		canvas.addEventListener("pointermove", event => {
			if (!this.dragging)
				return;
			const dx = event.clientX - this.dragging[0], dy = event.clientY - this.dragging[1];
			this.dragging = [event.clientX, event.clientY];
			this.turn = product(this.turn, product(aboutY(-dx / 120), aboutX(-dy / 120)));
			this.schedule();
		});
		for (const name of ["pointerup", "pointercancel"])
			canvas.addEventListener(name, () => {
				this.dragging = null;
				this.schedule();
			});
		canvas.addEventListener("wheel", event => {
			event.preventDefault();
			this.zoom = Math.min(10, Math.max(0.3, this.zoom * Math.exp(-event.deltaY / 500)));
			this.schedule();
		}, { passive: false });
	}
}
