/* Types of numbers in HDF5 files and in memory. */
#include "io/hdf5_parts.h"

hid_t hdf5_type(Element e)
{
	const hid_t integers[2][4] = {
		{H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_UINT32, H5T_NATIVE_UINT64},
		{H5T_NATIVE_INT8, H5T_NATIVE_INT16, H5T_NATIVE_INT32, H5T_NATIVE_INT64}};
	int size = e.bytes == 1 ? 0 : e.bytes == 2 ? 1 : e.bytes == 4 ? 2 : 3;
	if (e.kind == 'f')
		return e.bytes == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
	return integers[e.kind == 'i'][size];
}

static bool big_order(bool swapped)
{
	return swapped != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

bool dataset_element(hid_t dataset, Element *element)
{
	hid_t type = H5Dget_type(dataset);
	if (type < 0)
		return false;
	H5T_class_t class = H5Tget_class(type);
	size_t bytes = H5Tget_size(type);
	bool plain = (class == H5T_INTEGER || class == H5T_FLOAT) && bytes <= 8 &&
		     H5Tget_precision(type) == 8 * bytes;
	char kind = class == H5T_FLOAT ? 'f' : H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
	bool big = H5Tget_order(type) == H5T_ORDER_BE;
	*element = (Element){kind, plain ? (int)bytes : 0, bytes > 1 && big != big_order(false)};
	hdf5_drop(type);
	return element_name(*element) != NULL;
}

/* Half precision of IEEE 754, for which older libraries have no constant. */
static bool make_half(hid_t type)
{
	return H5Tset_fields(type, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(type, 2) >= 0 &&
	       H5Tset_ebias(type, 15) >= 0;
}

static hid_t standard_type(Element e)
{
	bool half = e.kind == 'f' && e.bytes == 2;
	hid_t type = H5Tcopy(half ? H5T_NATIVE_FLOAT : hdf5_type(e));
	bool made = type >= 0 && (!half || make_half(type)) &&
		    H5Tset_order(type, big_order(e.swapped) ? H5T_ORDER_BE : H5T_ORDER_LE) >= 0;
	if (made)
		return type;
	hdf5_drop(type);
	return H5I_INVALID_HID;
}

hid_t dataset_memory(hid_t dataset, Element *element)
{
	hid_t stored = H5Dget_type(dataset), type = standard_type(*element);
	bool same = stored >= 0 && type >= 0 && H5Tequal(type, stored) > 0;
	hdf5_drop(stored);
	if (same)
		return type;
	hdf5_drop(type);
	element->swapped = false;
	if (element->kind == 'f' && element->bytes == 2)
		element->bytes = 4;
	return H5Tcopy(hdf5_type(*element));
}
