% A projector as an operator: A = tomos_projector(geometry, OPTIONS...); A * x, A' * y, norm(A), free(A).
%
%   g = tomos('geometry', 'parallel', 'columns', 64, 'views', 90);
%   A = tomos_projector(g, 'forward', 'line');
%   y = A * x;    x = A' * y;
classdef tomos_projector
	properties
		handle
		transposed = false
	end
	methods
		function A = tomos_projector(geometry, varargin)
			A.handle = tomos('projector', geometry, varargin{:});
		end
		function y = mtimes(A, x)
			names = {'forward', 'adjoint'};
			y = tomos(names{1 + A.transposed}, A.handle, x);
		end
		function A = ctranspose(A)
			A.transposed = ~A.transposed;
		end
		function A = transpose(A)
			A.transposed = ~A.transposed;
		end
		function value = norm(A)
			value = tomos('norm', A.handle);
		end
		function free(A)
			tomos('free', A.handle);
		end
	end
end
