/* What every program for a device begins with: OpenCL C 1.2 with double precision. */
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

#define KERNEL_FN static inline
#define KERNEL_GLOBAL global

/* Items per work-group, as opencl.h has them. */
#define GROUP 128
#define WIDE 32
#define HIGH 4
#define LINE kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define PLANE kernel __attribute__((reqd_work_group_size(WIDE, HIGH, 1))) void

/* More elements than a launch has items are met by going round. */
#define EACH(variable, dimension, end) \
	for (long variable = get_global_id(dimension); variable < (end); \
		variable += get_global_size(dimension))
