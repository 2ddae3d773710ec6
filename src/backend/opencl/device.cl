/* Beginning of every program: OpenCL C 1.2 with double precision. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define KERNEL_FN static inline
#define KERNEL_GLOBAL global

/* Work-items per work-group, as in opencl.h. */
#define GROUP 128
#define WIDE 32
#define HIGH 4
#define LINE kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define PLANE kernel __attribute__((reqd_work_group_size(WIDE, HIGH, 1))) void

/* Loop with the launch size as stride, for more elements than work-items. */
#define EACH(variable, dimension, end) \
	for (long variable = get_global_id(dimension); variable < (end); \
		variable += get_global_size(dimension))
