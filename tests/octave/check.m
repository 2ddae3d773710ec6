% The gateway in Octave: right values, adjoints, the orientation of radon, options, rejections.
1;

function expect_error(words, varargin)
	try
		tomos(varargin{:});
	catch problem
		assert(~isempty(strfind(problem.message, words)), ...
			sprintf("'%s' is not in '%s'", words, problem.message));
		return;
	end
	error("not rejected: %s", words);
end

g = tomos('geometry', 'parallel', 'columns', 48, 'views', 90);
assert(size(g.views), [13 90]);
grid = tomos('grid', g);
assert(grid.n, [48 48 1]);
x = tomos('phantom', 'shepp-logan-2d-modified', grid, 'radius', 24);
assert(size(x), [48 48]);
assert(class(x), 'single');
assert(any(x(1:4, 24) > 0.9) && all(x(24, 1:4) == 0)); % the head is higher than wide

A = tomos_projector(g, 'grid', grid);
y = A * x;
assert(size(y), [48 90]);
z = A' * y;
assert(abs(sum(y(:) .^ 2) - sum(double(x(:)) .* double(z(:)))) < 1e-5 * sum(y(:) .^ 2));
% view 0: rays run down the columns of the picture; view 90: along its rows, from the lowest on
assert(max(abs(y(:, 1)' - sum(x, 1))) < 1e-4);
assert(max(abs(y(:, 46) - flipud(sum(x, 2)))) < 1e-4);
dot_ = norm(A);
assert(dot_ > 0);
free(A);

rec = tomos('sirt', g, y, 'iterations', 80, 'minimum', 0);
assert(norm(rec(:) - x(:)) < 0.3 * norm(x(:)));
more = tomos('sirt', g, y, 'iterations', 5, 'start', rec, 'mask', x > 0);
assert(norm(more(:) - x(:)) < norm(rec(:) - x(:)));
assert(all(more(x == 0) == 0));
double_ = tomos('sirt', g, double(y), 'iterations', 80, 'minimum', 0);
assert(isequal(double_, rec));
small = tomos('fbp', g, y, 'size', [32 32 1], 'filter', 'hann');
assert(size(small), [32 32]);

c = tomos('geometry', 'cone', 'rows', 12, 'columns', 32, 'views', 60, 'source_axis', 200, ...
	'source_detector', 300, 'arc', 360);
v = tomos('phantom', 'ball', tomos('grid', c), 'radius', 3, 'value', 0.1);
assert(size(v), [32 32 12]);
p = tomos_projector(c) * v;
assert(size(p), [32 12 60]);
r = tomos('fdk', c, p);
assert(abs(r(16, 16, 6) - 0.1) < 0.02);

expect_error('must be text', 3);
expect_error('usage: tomos(METHOD, GEOMETRY', 'sirt', g);
expect_error('method ''magic''', 'magic', g, y);
expect_error('''iteration'' is not known here', 'sirt', g, y, 'iteration', 3);
expect_error('iterations must be a whole number, not 2.5', 'sirt', g, y, 'iterations', 2.5);
expect_error('relaxation 7', 'sirt', g, y, 'relaxation', 7);
expect_error('names and values in turn', 'sirt', g, y, 'iterations');
expect_error('the projections has 10 values, expected 48 x 1 x 90', 'sirt', g, ones(10, 1));
expect_error('must be real numbers', 'sirt', g, y * i);
expect_error('is not a struct that tomos(''geometry''', 'sirt', 5, y);
expect_error('there is no projector 9', 'forward', 9, x);
expect_error('source_axis', 'geometry', 'cone', 'columns', 8, 'views', 9);
expect_error('not there in Octave', 'sirt', g, y, 'history', 1);
assert(~isempty(strfind(tomos('help'), 'sirt')));
disp(['octave with tomos ' tomos('version') ': all right']);
