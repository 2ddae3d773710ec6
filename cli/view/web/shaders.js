/* Programs of the volume rendering: rays through a box of 8-bit values, orthographic camera. */

export const VERTEX = `#version 300 es
in vec2 corner;
out vec2 screen;
void main() {
	screen = corner;
	gl_Position = vec4(corner, 0.0, 1.0);
}`;

/* Object space: the box is centred, x to the right, y against the index of rows, z upwards. */
export const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler3D;
uniform sampler3D volume;
uniform sampler2D colours;
uniform mat3 rotation;   /* from the screen to the object */
uniform vec3 halfBox;
uniform vec2 extent;     /* half of the screen in units of the object */
uniform vec2 range;      /* window, as fractions of the 8-bit range */
uniform float opacity;
uniform int steps;
uniform int kind;        /* 0: maximum, 1: opacity by value */
in vec2 screen;
out vec4 pixel;

float value(vec3 p) {
	vec3 t = 0.5 + 0.5 * p / halfBox;
	return texture(volume, vec3(t.x, 1.0 - t.y, t.z)).r;
}

float shown(float v) {
	return clamp((v - range.x) / (range.y - range.x), 0.0, 1.0);
}

/* Light from the direction of the viewer, by the gradient. */
float shade(vec3 p, vec3 towards, float d) {
	float v = value(p);
	vec3 g = vec3(value(p + vec3(d, 0, 0)) - v, value(p + vec3(0, d, 0)) - v, value(p + vec3(0, 0, d)) - v);
	float n = length(g);
	return n < 1e-3 ? 0.85 : 0.35 + 0.65 * abs(dot(g / n, towards));
}

void main() {
	vec3 from = rotation * vec3(screen * extent, 3.0), way = rotation * vec3(0.0, 0.0, -1.0);
	vec3 inverse = 1.0 / (way + vec3(equal(way, vec3(0.0))) * 1e-9);
	vec3 a = (-halfBox - from) * inverse, b = (halfBox - from) * inverse;
	vec3 near = min(a, b), far = max(a, b);
	float first = max(max(near.x, near.y), near.z), last = min(min(far.x, far.y), far.z);
	pixel = vec4(0.0, 0.0, 0.0, 1.0);
	if (last <= first)
		return;
	float apart = 3.5 / float(steps), most = 0.0, left = 1.0;
	vec3 sum = vec3(0.0);
	/* Another start for each pixel: noise instead of rings. */
	float start = fract(sin(dot(gl_FragCoord.xy, vec2(12.9898, 78.233))) * 43758.5453);
	for (float t = first + start * apart; t < last; t += apart) {
		vec3 p = from + t * way;
		float v = shown(value(p));
		if (kind == 0) {
			most = max(most, v);
			continue;
		}
		float alpha = 1.0 - exp(-v * v * opacity * opacity * 160.0 * apart);
		if (alpha < 0.002)
			continue;
		sum += left * alpha * shade(p, -way, 0.02) * texture(colours, vec2(v, 0.5)).rgb;
		left *= 1.0 - alpha;
		if (left < 0.02)
			break;
	}
	pixel = vec4(kind == 0 ? texture(colours, vec2(most, 0.5)).rgb : sum, 1.0);
}`;
