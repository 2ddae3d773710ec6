/* NeXus attributes of .nxs outputs: viewers (silx, NexPy, h5web) then show the data at once, with
 * axes and units. /entry/data is an NXdata whose signal is a second name of the data.
 * https://manual.nexusformat.org/classes/base_classes/NXdata.html */
#include <string.h>
#include "io/hdf5_parts.h"

enum { AXIS_NAME = 16 };

#define PLOT "/entry/data"

/* The content says which axes there are; other arrays stay as they are. */
bool nexus_is(const File *file)
{
	return path_ends_in(file->path, ".nxs") &&
	       (file->content == TOMOS_VOLUME || file->content == TOMOS_PROJECTIONS);
}

static bool put_axis_names(hid_t plot, const char names[3][AXIS_NAME])
{
	return hdf5_attribute_list(plot, "axes", names[0], AXIS_NAME, 3);
}

static hid_t make_group(hid_t file, const char *name, const char *class)
{
	hid_t list = hdf5_timeless(H5P_GROUP_CREATE);
	hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, list, H5P_DEFAULT);
	hdf5_drop(list);
	if (group >= 0 && hdf5_attribute(group, "NX_class", class))
		return group;
	hdf5_drop(group);
	return H5I_INVALID_HID;
}

bool nexus_begin(const File *file)
{
	static const char none[3][AXIS_NAME] = {".", ".", "."};
	const Hdf5 *own = file->own;
	hid_t entry = make_group(own->file, "/entry", "NXentry");
	hid_t plot = entry >= 0 ? make_group(own->file, PLOT, "NXdata") : H5I_INVALID_HID;
	bool made = plot >= 0 && hdf5_attribute(own->file, "NX_class", "NXroot") &&
		    hdf5_attribute(own->file, "default", "entry") &&
		    hdf5_attribute(entry, "default", "data") &&
		    hdf5_attribute(plot, "signal", "data") && put_axis_names(plot, none) &&
		    hdf5_attribute(own->dataset, "interpretation", "image") &&
		    H5Lcreate_hard(own->file, file->dataset, own->file, PLOT "/data", H5P_DEFAULT,
			    H5P_DEFAULT) >= 0;
	hdf5_drop(plot);
	hdf5_drop(entry);
	return made;
}

static bool put_axis(hid_t file, const char *name, hsize_t count, double first, double step)
{
	double *places;
	if (mem_alloc(&places, (int64_t)count, sizeof *places, "places along an axis") != TOMOS_OK)
		return false;
	for (hsize_t i = 0; i < count; i++)
		places[i] = first + (double)i * step;
	hid_t axis = hdf5_make(file, name, H5T_NATIVE_DOUBLE, 1, &count, 0);
	bool written = axis >= 0 && H5Dwrite(axis, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
					    places) >= 0;
	hdf5_drop(axis);
	mem_free(places);
	return written;
}

bool nexus_axes(const File *file, const GridNumbers *grid)
{
	static const char names[3][AXIS_NAME] = {"z", "y", "x"};
	static const char *const paths[3] = {PLOT "/z", PLOT "/y", PLOT "/x"};
	const Hdf5 *own = file->own;
	if (hdf5_has(own->file, paths[0])) /* a grid may be set again */
		for (int i = 0; i < 3; i++)
			(void)H5Ldelete(own->file, paths[i], H5P_DEFAULT);
	hid_t plot = H5Gopen2(own->file, PLOT, H5P_DEFAULT);
	bool written = plot >= 0 && put_axis_names(plot, names);
	for (int i = 0; i < 3 && written; i++)
		written = put_axis(own->file, paths[i], (hsize_t)file->shape[i], grid->first[2 - i],
			grid->step[2 - i]);
	hdf5_drop(plot);
	return written;
}
