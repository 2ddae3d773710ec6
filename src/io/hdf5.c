/* HDF5: the data as one dataset, named numbers as small datasets beside it.
 *
 * The library is not safe for threads, so one mutex guards every use of it. Its printing is switched
 * off for that time, and the innermost of its messages goes into the sentence. Files are written in
 * the layout of HDF5 1.8, whose metadata carry checksums, with contiguous data: slabs are then plain
 * stretches of the file.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <hdf5.h>
#include "io/hdf5_disk.h"
#include "io/io.h"
#include "io/matrix_file.h"

typedef struct {
	hid_t file, dataset;
	int rank; /* of the dataset as stored */
} Hdf5;

/* ---- the library, one caller at a time, without its printing ------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char complaint[200]; /* of the last call that failed; guarded by the lock */

typedef struct {
	H5E_auto2_t print;
	void *data;
} Quiet;

/* The library's text about a failed read or write is long; the system's word in it is enough. */
static herr_t take_innermost(unsigned n, const H5E_error2_t *error, void *user)
{
	static const char mark[] = "error message = '";
	(void)user;
	if (n != 0 || !error->desc)
		return 0;
	const char *system = strstr(error->desc, mark);
	const char *text = system ? system + sizeof mark - 1 : error->desc;
	int length = (int)(system ? strcspn(text, "'") : strlen(text));
	snprintf(complaint, sizeof complaint, "%.*s", length, text);
	return 0;
}

/* Called by the library itself whenever one of its functions fails. */
static herr_t hear_error(hid_t stack, void *user)
{
	return H5Ewalk2(stack, H5E_WALK_UPWARD, take_innermost, user);
}

static Quiet enter(void)
{
	Quiet quiet;
	pthread_mutex_lock(&lock);
	H5Eget_auto2(H5E_DEFAULT, &quiet.print, &quiet.data);
	H5Eset_auto2(H5E_DEFAULT, hear_error, NULL);
	complaint[0] = 0;
	return quiet;
}

static tomos_status leave(Quiet quiet, tomos_status status)
{
	H5Eset_auto2(H5E_DEFAULT, quiet.print, quiet.data);
	pthread_mutex_unlock(&lock);
	return status;
}

/* Closes an object of any kind, if it was opened at all. */
static void drop(hid_t object)
{
	if (object >= 0)
		H5Idec_ref(object);
}

/* Whether all that was written reached the disk; what did not is the complaint then. */
static bool landed(int failure)
{
	if (failure)
		snprintf(complaint, sizeof complaint, "%s", strerror(failure));
	return failure == 0;
}

/* "'path', dataset '/x': what: what the library says" */
static tomos_status refuse(
	tomos_status status, const char *path, const char *dataset, const char *what)
{
	return fail(status, "'%s'%s%s%s: %s%s%s", path, dataset ? ", dataset '" : "",
		dataset ? dataset : "", dataset ? "'" : "", what, complaint[0] ? ": " : "",
		complaint);
}

/* ---- what a dataset holds ----------------------------------------------------------------- */

/* One per dataset looked at. */
typedef struct {
	Element element;
	int rank;
	int64_t axes[H5S_MAX_RANK];
} Form;

static bool take_element(hid_t dataset, Element *element)
{
	hid_t type = H5Dget_type(dataset);
	if (type < 0)
		return false;
	H5T_class_t class = H5Tget_class(type);
	size_t bytes = H5Tget_size(type);
	bool plain = (class == H5T_INTEGER || class == H5T_FLOAT) && bytes <= 8 &&
		     H5Tget_precision(type) == 8 * bytes;
	char kind = class == H5T_FLOAT ? 'f' : H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i';
	*element = (Element){kind, plain ? (int)bytes : 0, false};
	drop(type);
	return element_name(*element) != NULL;
}

static bool take_axes(hid_t dataset, Form *form)
{
	hsize_t sizes[H5S_MAX_RANK];
	hid_t space = H5Dget_space(dataset);
	if (space < 0)
		return false;
	form->rank = H5Sget_simple_extent_type(space) == H5S_NULL
			     ? -1
			     : H5Sget_simple_extent_dims(space, sizes, NULL);
	drop(space);
	for (int i = 0; i < form->rank; i++)
		form->axes[i] = sizes[i] > INT64_MAX ? INT64_MAX : (int64_t)sizes[i];
	return form->rank >= 0;
}

static int64_t form_bytes(const Form *form)
{
	int64_t bytes = form->element.bytes;
	for (int i = 0; i < form->rank; i++)
		if (!size_mul(bytes, form->axes[i], &bytes))
			return INT64_MAX;
	return bytes;
}

static int64_t bytes_of_file(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0 ? info.st_size : 0;
}

/* Chunks that are compressed may unfold, though not without end; a chunk too large for its file
 * would have the library take the memory for it. */
static bool chunks_fit(hid_t dataset, hid_t list, int64_t bytes, int64_t size)
{
	hsize_t sides[H5S_MAX_RANK];
	int rank = H5Pget_chunk(list, H5S_MAX_RANK, sides);
	int64_t most, chunk = 8;
	if (!size_mul(size, LARGEST_RATIO, &most))
		most = INT64_MAX;
	for (int i = 0; i < rank; i++)
		if (sides[i] > INT64_MAX || !size_mul(chunk, (int64_t)sides[i], &chunk))
			return false;
	return rank > 0 && H5Dget_storage_size(dataset) > 0 && bytes <= most && chunk <= most;
}

/* The data a dataset claims can be in its file. Virtual and external data lie elsewhere. */
static tomos_status check_bytes(
	hid_t dataset, hid_t list, const Form *form, const char *path, const char *name)
{
	int64_t bytes = form_bytes(form), size = bytes_of_file(path);
	H5D_layout_t layout = H5Pget_layout(list);
	haddr_t at = H5Dget_offset(dataset);
	bool fits;
	if (layout == H5D_CHUNKED)
		fits = chunks_fit(dataset, list, bytes, size);
	else if (layout == H5D_CONTIGUOUS && H5Pget_external_count(list) == 0)
		fits = at != HADDR_UNDEF && bytes <= size && at <= (haddr_t)(size - bytes) &&
		       H5Dget_storage_size(dataset) == (hsize_t)bytes;
	else
		fits = layout == H5D_COMPACT ? bytes <= size : layout != H5D_LAYOUT_ERROR;
	if (fits)
		return TOMOS_OK;
	return fail(TOMOS_BAD_FILE,
		"'%s', dataset '%s': its %lld bytes are not in the file of %lld", path, name,
		(long long)bytes, (long long)size);
}

/* Compressed chunks need a filter that is built in, or found as a plug-in. */
static tomos_status check_filters(hid_t list, const char *path, const char *name)
{
	int count = H5Pget_layout(list) == H5D_CHUNKED ? H5Pget_nfilters(list) : 0;
	for (int i = 0; i < count; i++) {
		char filter[64] = "";
		size_t values = 0;
		unsigned flags, config;
		H5Z_filter_t id = H5Pget_filter2(
			list, (unsigned)i, &flags, &values, NULL, sizeof filter, filter, &config);
		if (id >= 0 && H5Zfilter_avail(id) > 0)
			continue;
		return fail(TOMOS_UNSUPPORTED,
			"'%s', dataset '%s': its chunks are compressed with filter %d (%s), whose "
			"plug-in was not found; install it, and set HDF5_PLUGIN_PATH to its folder",
			path, name, (int)id, filter[0] ? filter : "without a name");
	}
	return TOMOS_OK;
}

/* Where HDF5 looks for the files of a virtual dataset: beside the file itself, or from here. */
static bool source_exists(const char *path, const char *source)
{
	const char *slash = strrchr(path, '/');
	char beside[4096];
	int length = source[0] != '/' && slash ? (int)(slash - path + 1) : 0;
	snprintf(beside, sizeof beside, "%.*s%s", length, path, source);
	return strcmp(source, ".") == 0 || access(beside, R_OK) == 0 || access(source, R_OK) == 0;
}

/* What a virtual dataset's missing files hold would silently read as zeros. */
static tomos_status check_sources(hid_t list, const char *path, const char *name)
{
	size_t count = 0;
	if (H5Pget_layout(list) != H5D_VIRTUAL || H5Pget_virtual_count(list, &count) < 0)
		return TOMOS_OK;
	for (size_t i = 0; i < count; i++) {
		char source[2048] = "";
		if (H5Pget_virtual_filename(list, i, source, sizeof source) < 0)
			return refuse(TOMOS_BAD_FILE, path, name, "its sources cannot be read");
		if (!strchr(source, '%') && !source_exists(path, source))
			return fail(TOMOS_BAD_FILE,
				"'%s', dataset '%s': it is virtual, and its file '%s' cannot be "
				"read",
				path, name, source);
	}
	return TOMOS_OK;
}

static tomos_status check_storage(
	hid_t dataset, const Form *form, const char *path, const char *name)
{
	hid_t list = H5Dget_create_plist(dataset);
	if (list < 0)
		return refuse(TOMOS_BAD_FILE, path, name, "its layout cannot be read");
	tomos_status status = check_bytes(dataset, list, form, path, name);
	if (status == TOMOS_OK)
		status = check_filters(list, path, name);
	if (status == TOMOS_OK)
		status = check_sources(list, path, name);
	drop(list);
	return status;
}

/* ---- which dataset ------------------------------------------------------------------------ */

static const struct {
	const char *name;
	tomos_content content;
} usual[] = {{"/volume", TOMOS_VOLUME}, {"/projections", TOMOS_PROJECTIONS},
	{"/exchange/data", TOMOS_PROJECTIONS}};

/* Opens a path step by step, which H5Lexists asks for; a dead link is not there either. */
static bool has_object(hid_t file, const char *name)
{
	char path[256];
	for (const char *p = name; *p;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		int length = (int)(p - name);
		if (length >= (int)sizeof path)
			return false;
		memcpy(path, name, (size_t)length);
		path[length] = 0;
		if (H5Lexists(file, path, H5P_DEFAULT) <= 0)
			return false;
	}
	return H5Oexists_by_name(file, name, H5P_DEFAULT) > 0;
}

typedef struct {
	char first[512], all[512];
	int count;
} Candidates;

static bool is_candidate(hid_t object)
{
	Form form;
	return H5Iget_type(object) == H5I_DATASET && take_element(object, &form.element) &&
	       take_axes(object, &form) && (form.rank == 2 || form.rank == 3);
}

static herr_t look_at(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
	Candidates *found = user;
	(void)info;
	hid_t object = H5Oopen(group, name, H5P_DEFAULT);
	bool fits = object >= 0 && strlen(name) + 2 < sizeof found->first && is_candidate(object);
	drop(object);
	if (!fits)
		return 0;
	if (found->count++ == 0)
		snprintf(found->first, sizeof found->first, "/%s", name);
	size_t length = strlen(found->all);
	snprintf(
		found->all + length, sizeof found->all - length, "%s/%s", length ? ", " : "", name);
	return 0;
}

static tomos_status search_dataset(File *file, hid_t id)
{
	Candidates found = {.count = 0};
	if (H5Lvisit(id, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, &found) < 0)
		return refuse(TOMOS_BAD_FILE, file->path, NULL, "its groups cannot be read");
	if (found.count == 1)
		return mem_text(&file->dataset, found.first);
	if (found.count == 0)
		return fail(TOMOS_BAD_FILE, "'%s' has no dataset of numbers with two or three axes",
			file->path);
	return fail(TOMOS_BAD_VALUE, "'%s' has %d datasets that could be meant; name one of %s",
		file->path, found.count, found.all);
}

static tomos_status choose_dataset(File *file, hid_t id, const char *wanted)
{
	if (wanted && *wanted)
		return mem_printf(&file->dataset, "%s%s", *wanted == '/' ? "" : "/", wanted);
	for (int i = 0; i < COUNT(usual); i++)
		if (has_object(id, usual[i].name))
			return mem_text(&file->dataset, usual[i].name);
	return search_dataset(file, id);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The signature may follow a block of the user's own of 512, 1024, ... bytes. */
static bool hdf5_probe(const unsigned char *head, size_t length)
{
	static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
	for (size_t at = 0; head && at + sizeof signature <= length; at = at ? 2 * at : 512)
		if (memcmp(head + at, signature, sizeof signature) == 0)
			return true;
	return false;
}

static uint64_t take_address(const unsigned char *from, int bytes)
{
	uint64_t address = 0;
	for (int i = bytes; i-- > 0;)
		address = address << 8 | from[i];
	return bytes < 8 && address == (UINT64_C(1) << 8 * bytes) - 1 ? UINT64_MAX : address;
}

/* The first block of files of the old layout has no checksum, and the library believes it: a wrong
 * address of a driver's block has it take gigabytes. Only files in parts have such a block. */
static tomos_status check_first_block(const char *path)
{
	unsigned char block[96] = {0};
	int descriptor;
	int64_t size;
	TRY(flat_open(&descriptor, &size, path));
	tomos_status status =
		flat_read(descriptor, path, 0, block, min64(size, (int64_t)sizeof block));
	(void)flat_close(&descriptor, path);
	TRY(status);
	int version = block[8], bytes = block[13];
	if (!hdf5_probe(block, 8) || version > 1)
		return TOMOS_OK;
	if (bytes != 4 && bytes != 8)
		return fail(TOMOS_BAD_FILE, "'%s': addresses of %d bytes; 4 or 8 were expected",
			path, bytes);
	const unsigned char *addresses = block + (version == 0 ? 24 : 28);
	uint64_t end = take_address(addresses + 2 * bytes, bytes);
	if (end > (uint64_t)size)
		return fail(TOMOS_BAD_FILE, "'%s' is truncated: it has %lld bytes of %llu", path,
			(long long)size, (unsigned long long)end);
	if (take_address(addresses + 3 * bytes, bytes) != UINT64_MAX)
		return fail(
			TOMOS_UNSUPPORTED, "'%s' is part of an HDF5 file in several parts", path);
	return TOMOS_OK;
}

/* Locks are of no use here, and fail on many network file systems. */
static hid_t access_list(bool create)
{
	hid_t list = H5Pcreate(H5P_FILE_ACCESS);
	if (list < 0)
		return list;
	H5Pset_fclose_degree(list, H5F_CLOSE_STRONG);
	if (create) {
		H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_V18);
		if (!hdf5_disk_use(list)) {
			drop(list);
			return H5I_INVALID_HID;
		}
	}
#if H5_VERSION_GE(1, 10, 7)
	H5Pset_file_locking(list, 0, 1);
#endif
	return list;
}

static tomos_status open_dataset(File *file, Hdf5 *own)
{
	Form form;
	char *where;
	own->dataset = has_object(own->file, file->dataset)
			       ? H5Dopen2(own->file, file->dataset, H5P_DEFAULT)
			       : H5I_INVALID_HID;
	if (own->dataset < 0)
		return refuse(
			TOMOS_BAD_FILE, file->path, file->dataset, "is not a dataset of the file");
	if (!take_element(own->dataset, &form.element))
		return fail(TOMOS_UNSUPPORTED,
			"'%s', dataset '%s': only integers and floats of 8 to 64 bits can be read",
			file->path, file->dataset);
	if (!take_axes(own->dataset, &form))
		return refuse(
			TOMOS_BAD_FILE, file->path, file->dataset, "its shape cannot be read");
	own->rank = form.rank;
	file->type = element_name(form.element);
	TRY(mem_printf(&where, "'%s', dataset '%s'", file->path, file->dataset));
	tomos_status status = shape_take(file->shape, form.axes, form.rank, where);
	mem_free(where);
	TRY(status);
	return check_storage(own->dataset, &form, file->path, file->dataset);
}

static tomos_status make_own(File *file, Hdf5 **own)
{
	TRY(mem_alloc(own, 1, sizeof **own, "an HDF5 file's description"));
	**own = (Hdf5){H5I_INVALID_HID, H5I_INVALID_HID, 0};
	file->own = *own;
	return TOMOS_OK;
}

static tomos_status open_locked(File *file, Hdf5 *own, const char *wanted)
{
	hid_t access = access_list(false);
	own->file = H5Fopen(file->path, H5F_ACC_RDONLY, access);
	drop(access);
	if (own->file < 0)
		return refuse(TOMOS_BAD_FILE, file->path, NULL, "cannot be opened as an HDF5 file");
	if (file->bare)
		return TOMOS_OK;
	TRY(choose_dataset(file, own->file, wanted));
	for (int i = 0; i < COUNT(usual); i++)
		if (strcmp(file->dataset, usual[i].name) == 0)
			file->content = usual[i].content;
	return open_dataset(file, own);
}

static tomos_status hdf5_open(File *file, const tomos_file_options *options)
{
	Hdf5 *own;
	TRY(make_own(file, &own));
	TRY(check_first_block(file->path));
	Quiet quiet = enter();
	return leave(quiet, open_locked(file, own, options->dataset));
}

/* A part of the first two of three axes, in the dataset's own rank. */
static hid_t select_slab(const File *file, const Extract *wanted, hid_t *memory)
{
	const Hdf5 *own = file->own;
	hsize_t start[3] = {(hsize_t)wanted->first, (hsize_t)wanted->row, 0};
	hsize_t part[3] = {(hsize_t)wanted->count, (hsize_t)wanted->rows, (hsize_t)file->shape[2]};
	int skip = 3 - own->rank;
	hid_t space = H5Dget_space(own->dataset);
	if (space < 0)
		return space;
	if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start + skip, NULL, part + skip, NULL) < 0 ||
		(*memory = H5Screate_simple(own->rank, part + skip, NULL)) < 0) {
		drop(space);
		return H5I_INVALID_HID;
	}
	return space;
}

/* Numbers beyond float end the reading, where HDF5 itself would make them infinite. */
static H5T_conv_ret_t beyond(
	H5T_conv_except_t what, hid_t from, hid_t to, void *stored, void *made, void *user)
{
	double value = 0;
	(void)to;
	(void)made;
	if (what != H5T_CONV_EXCEPT_RANGE_HI && what != H5T_CONV_EXCEPT_RANGE_LOW)
		return H5T_CONV_UNHANDLED;
	if (H5Tequal(from, H5T_NATIVE_DOUBLE) > 0)
		memcpy(&value, stored, sizeof value);
	if (isinf(value)) /* the library calls infinity itself out of range, but only here */
		return H5T_CONV_UNHANDLED;
	*(bool *)user = true;
	return H5T_CONV_ABORT;
}

static herr_t read_floats(hid_t dataset, hid_t memory, hid_t space, float *data)
{
	bool outside = false;
	hid_t list = H5Pcreate(H5P_DATASET_XFER);
	herr_t failed = -1;
	if (list >= 0 && H5Pset_type_conv_cb(list, beyond, &outside) >= 0)
		failed = H5Dread(dataset, H5T_NATIVE_FLOAT, memory, space, list, data);
	drop(list);
	if (outside)
		snprintf(complaint, sizeof complaint, "there are values that do not fit float32");
	return failed;
}

static hid_t memory_type(Element element)
{
	if (element.kind == 'f')
		return element.bytes == 4 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
	if (element.kind == 'u')
		return element.bytes == 1 ? H5T_NATIVE_UINT8 : H5T_NATIVE_UINT16;
	return element.bytes == 4 ? H5T_NATIVE_INT32 : H5T_NATIVE_INT64;
}

static tomos_status transfer(const File *file, const Extract *part, float *in, const void *out)
{
	const Hdf5 *own = file->own;
	hid_t memory, space = select_slab(file, part, &memory);
	herr_t failed = -1;
	if (space >= 0) {
		failed = in ? read_floats(own->dataset, memory, space, in)
			    : H5Dwrite(own->dataset, memory_type(file->element), memory, space,
				      H5P_DEFAULT, out);
		drop(memory);
		drop(space);
	}
	if (failed >= 0 && (in || landed(hdf5_disk_failure(own->file))))
		return TOMOS_OK;
	char what[128], rows[64] = "";
	if (part->rows < file->shape[1])
		snprintf(rows, sizeof rows, ", rows %lld to %lld,", (long long)part->row,
			(long long)(part->row + part->rows - 1));
	snprintf(what, sizeof what, "indices %lld to %lld%s cannot be %s", (long long)part->first,
		(long long)(part->first + part->count - 1), rows, in ? "read" : "written");
	return refuse(in ? TOMOS_BAD_FILE : TOMOS_IO, file->path, file->dataset, what);
}

static tomos_status hdf5_read(File *file, const Extract *part, float *data)
{
	Quiet quiet = enter();
	return leave(quiet, transfer(file, part, data, NULL));
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool put_attribute(hid_t object, const char *name, const char *text)
{
	hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
	hid_t attribute = H5I_INVALID_HID;
	if (type >= 0 && space >= 0 && H5Tset_size(type, strlen(text)) >= 0)
		attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
	bool written = attribute >= 0 && H5Awrite(attribute, type, text) >= 0;
	drop(attribute);
	drop(space);
	drop(type);
	return written;
}

/* Without the time of their making, so that the same work gives the same bytes. */
static hid_t timeless(hid_t class)
{
	hid_t list = H5Pcreate(class);
	if (list >= 0 && H5Pset_obj_track_times(list, 0) < 0) {
		drop(list);
		return H5I_INVALID_HID;
	}
	return list;
}

static bool make_groups(hid_t file, const char *name)
{
	char path[256];
	bool made = true;
	hid_t list = timeless(H5P_GROUP_CREATE);
	for (const char *p = strchr(name + 1, '/'); p && made; p = strchr(p + 1, '/')) {
		snprintf(path, sizeof path, "%.*s", (int)(p - name), name);
		if (has_object(file, path))
			continue;
		hid_t group = H5Gcreate2(file, path, H5P_DEFAULT, list, H5P_DEFAULT);
		made = group >= 0;
		drop(group);
	}
	drop(list);
	return made && list >= 0;
}

enum { CHUNK_BYTES = 16 << 20 };

/* Chunks of one index of the first axis, or of some rows of it where that is large. */
static bool set_chunks(hid_t list, hid_t type, const hsize_t *sizes, int compress)
{
	hsize_t sides[3] = {1, sizes[1], sizes[2]};
	hsize_t row = sizes[2] * H5Tget_size(type);
	if (sides[1] * row > CHUNK_BYTES)
		sides[1] = row < CHUNK_BYTES ? CHUNK_BYTES / row : 1;
	return H5Pset_chunk(list, 3, sides) >= 0 && H5Pset_shuffle(list) >= 0 &&
	       H5Pset_deflate(list, (unsigned)compress) >= 0;
}

/* The space for plain data is taken at once, so that writing them later changes nothing else. */
static hid_t data_list(hid_t type, const hsize_t *sizes, int compress)
{
	hid_t list = timeless(H5P_DATASET_CREATE);
	bool set = list >= 0 && H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0;
	if (compress)
		set = set && set_chunks(list, type, sizes, compress);
	else
		set = set && H5Pset_layout(list, H5D_CONTIGUOUS) >= 0 &&
		      H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0;
	if (set)
		return list;
	drop(list);
	return H5I_INVALID_HID;
}

/* A dataset with the groups on the way to it; compressed (three axes) or not. */
static hid_t make_dataset(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, int compress)
{
	hid_t dataset = H5I_INVALID_HID;
	hid_t space = rank ? H5Screate_simple(rank, sizes, NULL) : H5Screate(H5S_SCALAR);
	hid_t list = data_list(type, sizes, compress);
	if (space >= 0 && list >= 0 && make_groups(file, name))
		dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
	drop(list);
	drop(space);
	return dataset;
}

static const char *content_name(tomos_content content)
{
	return content == TOMOS_VOLUME        ? "volume"
	       : content == TOMOS_PROJECTIONS ? "projections"
					      : "data";
}

static bool create_new(File *file, Hdf5 *own, hid_t access)
{
	hsize_t sizes[3];
	for (int i = 0; i < 3; i++)
		sizes[i] = (hsize_t)file->shape[i];
	hid_t list = timeless(H5P_FILE_CREATE);
	own->file = H5Fcreate(file->temporary, H5F_ACC_EXCL, list, access);
	drop(list);
	if (own->file >= 0)
		own->dataset = make_dataset(own->file, file->dataset, memory_type(file->element), 3,
			sizes, file->compress);
	return own->dataset >= 0 && put_attribute(own->file, "tomos", TOMOS_VERSION) &&
	       put_attribute(own->file, "content", content_name(file->content)) &&
	       H5Fflush(own->file, H5F_SCOPE_LOCAL) >= 0;
}

static bool open_again(const File *file, Hdf5 *own, hid_t access)
{
	own->file = H5Fopen(file->temporary, H5F_ACC_RDWR, access);
	own->dataset =
		own->file >= 0 ? H5Dopen2(own->file, file->dataset, H5P_DEFAULT) : H5I_INVALID_HID;
	return own->dataset >= 0;
}

static tomos_status create_locked(File *file, Hdf5 *own)
{
	hid_t access = access_list(true);
	own->rank = 3;
	bool made = file->continued ? open_again(file, own, access) : create_new(file, own, access);
	drop(access);
	if (!landed(hdf5_disk_failure(own->file)) || !made)
		return refuse(TOMOS_IO, file->path, NULL,
			file->continued ? "what was begun cannot be opened" : "cannot be created");
	return TOMOS_OK;
}

static tomos_status hdf5_create(File *file)
{
	Hdf5 *own;
	TRY(make_own(file, &own));
	TRY(mem_printf(&file->dataset, "/%s", content_name(file->content)));
	Quiet quiet = enter();
	return leave(quiet, create_locked(file, own));
}

static tomos_status hdf5_write(File *file, int64_t first, int64_t count, const void *data)
{
	const Extract part = {first, count, 0, file->shape[1]};
	Quiet quiet = enter();
	return leave(quiet, transfer(file, &part, NULL, data));
}

static bool close_locked(Hdf5 *own)
{
	bool closed = own->dataset < 0 || H5Dclose(own->dataset) >= 0;
	closed &= own->file < 0 || landed(hdf5_disk_close(own->file));
	own->dataset = own->file = H5I_INVALID_HID;
	return closed;
}

/* Closed and opened again: what is written from here on lies in places already taken, whether by
 * this process or by another that goes on after it. */
static tomos_status hdf5_seal(File *file)
{
	Hdf5 *own = file->own;
	tomos_status status = TOMOS_OK;
	Quiet quiet = enter();
	bool closed = H5Fflush(own->file, H5F_SCOPE_LOCAL) >= 0;
	closed &= close_locked(own);
	hid_t access = access_list(true);
	if (!closed || !open_again(file, own, access))
		status = refuse(TOMOS_IO, file->path, NULL, "cannot be written");
	drop(access);
	return leave(quiet, status);
}

static tomos_status hdf5_sync(File *file)
{
	const Hdf5 *own = file->own;
	tomos_status status = TOMOS_OK;
	Quiet quiet = enter();
	if (H5Fflush(own->file, H5F_SCOPE_LOCAL) < 0 || !landed(hdf5_disk_failure(own->file)))
		status = refuse(TOMOS_IO, file->path, NULL, "cannot be written");
	return leave(quiet, status);
}

static tomos_status hdf5_finish(File *file)
{
	tomos_status status = TOMOS_OK;
	Quiet quiet = enter();
	Hdf5 *own = file->own;
	if (H5Fflush(own->file, H5F_SCOPE_LOCAL) < 0 || !close_locked(own))
		status = refuse(TOMOS_IO, file->path, NULL, "cannot be written to its end");
	return leave(quiet, status);
}

static void hdf5_close(File *file)
{
	Hdf5 *own = file->own;
	Quiet quiet = enter();
	(void)close_locked(own);
	(void)leave(quiet, TOMOS_OK);
	mem_free(own);
}

/* ---- named numbers ------------------------------------------------------------------------ */

static tomos_status read_numbers(
	const File *file, const char *name, hid_t dataset, double **values, int64_t shape[2])
{
	Form form;
	int64_t count = 1;
	if (!take_element(dataset, &form.element) || !take_axes(dataset, &form) || form.rank > 2)
		return refuse(TOMOS_BAD_FILE, file->path, name, "is no list or table of numbers");
	TRY(check_storage(dataset, &form, file->path, name));
	shape[0] = form.rank > 1 ? form.axes[0] : 1;
	shape[1] = form.rank > 0 ? form.axes[form.rank - 1] : 1;
	(void)size_mul(shape[0], shape[1], &count); /* it fits: the bytes are in the file */
	TRY(mem_alloc(values, count, sizeof **values, "numbers of an HDF5 file"));
	if (H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, *values) >= 0)
		return TOMOS_OK;
	mem_free(*values);
	*values = NULL;
	return refuse(TOMOS_BAD_FILE, file->path, name, "cannot be read");
}

static tomos_status get_locked(
	const File *file, const char *name, double **values, int64_t shape[2])
{
	const Hdf5 *own = file->own;
	if (own->file < 0 || !has_object(own->file, name))
		return TOMOS_OK;
	hid_t dataset = H5Dopen2(own->file, name, H5P_DEFAULT);
	if (dataset < 0)
		return refuse(TOMOS_BAD_FILE, file->path, name, "is no dataset");
	tomos_status status = read_numbers(file, name, dataset, values, shape);
	drop(dataset);
	return status;
}

static tomos_status hdf5_get(const File *file, const char *name, double **values, int64_t shape[2])
{
	Quiet quiet = enter();
	return leave(quiet, get_locked(file, name, values, shape));
}

/* A dataset of numbers that is there already and of that size is written over; another one goes. */
static hid_t open_same(hid_t file, const char *name, const hsize_t *sizes, int rank)
{
	Form form;
	hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
	bool same = dataset >= 0 && take_axes(dataset, &form) && form.rank == rank;
	for (int i = 0; i < rank && same; i++)
		same = form.axes[i] == (int64_t)sizes[i];
	if (same)
		return dataset;
	drop(dataset);
	(void)H5Ldelete(file, name, H5P_DEFAULT);
	return H5I_INVALID_HID;
}

static tomos_status put_locked(
	const File *file, const char *name, const double *values, const int64_t shape[2])
{
	const Hdf5 *own = file->own;
	hsize_t sizes[2] = {(hsize_t)shape[0], (hsize_t)shape[1]};
	int rank = shape[0] == 1 ? 1 : 2;
	hid_t dataset = has_object(own->file, name)
				? open_same(own->file, name, sizes + 2 - rank, rank)
				: H5I_INVALID_HID;
	if (dataset < 0)
		dataset =
			make_dataset(own->file, name, H5T_NATIVE_DOUBLE, rank, sizes + 2 - rank, 0);
	bool written = dataset >= 0 && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL,
					       H5P_DEFAULT, values) >= 0;
	written &= landed(hdf5_disk_failure(own->file));
	tomos_status status =
		written ? TOMOS_OK : refuse(TOMOS_IO, file->path, name, "cannot be written");
	drop(dataset);
	return status;
}

static tomos_status hdf5_put(
	File *file, const char *name, const double *values, const int64_t shape[2])
{
	Quiet quiet = enter();
	return leave(quiet, put_locked(file, name, values, shape));
}

static tomos_status put_text_locked(const File *file, const char *name, const char *text)
{
	const Hdf5 *own = file->own;
	hid_t type = H5Tcopy(H5T_C_S1), dataset = H5I_INVALID_HID;
	if (type >= 0 && H5Tset_size(type, strlen(text) + 1) >= 0 &&
		H5Tset_cset(type, H5T_CSET_UTF8) >= 0 && !has_object(own->file, name))
		dataset = make_dataset(own->file, name, type, 0, NULL, 0);
	bool written =
		dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0;
	written &= landed(hdf5_disk_failure(own->file));
	drop(dataset);
	drop(type);
	return written ? TOMOS_OK : refuse(TOMOS_IO, file->path, name, "cannot be written");
}

static tomos_status hdf5_put_text(File *file, const char *name, const char *text)
{
	Quiet quiet = enter();
	return leave(quiet, put_text_locked(file, name, text));
}

/* ---- texts and names ---------------------------------------------------------------------- */

enum { LONGEST_TEXT = 1 << 16 };

/* One text of fixed or variable length; `read` and `object` are a dataset's or an attribute's. */
static tomos_status read_text(hid_t type, hid_t space,
	herr_t (*read)(hid_t object, hid_t type, void *to), hid_t object, char **text)
{
	size_t size = H5Tget_size(type);
	char *pointer = NULL;
	bool one = H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1;
	if (!one)
		return TOMOS_OK;
	if (H5Tis_variable_str(type) > 0) {
		tomos_status status = read(object, type, &pointer) >= 0 && pointer
					      ? mem_printf(text, "%.*s", LONGEST_TEXT, pointer)
					      : TOMOS_OK;
		H5free_memory(pointer);
		return status;
	}
	if (size < 1 || size > LONGEST_TEXT)
		return TOMOS_OK;
	TRY(mem_zeroed(text, (int64_t)size + 1, 1, "a text of an HDF5 file"));
	if (read(object, type, *text) >= 0)
		return TOMOS_OK;
	mem_free(*text);
	*text = NULL;
	return TOMOS_OK;
}

static herr_t read_dataset_text(hid_t object, hid_t type, void *to)
{
	return H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
}

static tomos_status text_of_dataset(hid_t object, char **text)
{
	hid_t type = H5Dget_type(object), space = H5Dget_space(object);
	tomos_status status = type >= 0 && space >= 0
				      ? read_text(type, space, read_dataset_text, object, text)
				      : TOMOS_OK;
	drop(space);
	drop(type);
	return status;
}

static tomos_status text_of_attribute(hid_t owner, const char *name, char **text)
{
	if (H5Aexists(owner, name) <= 0)
		return TOMOS_OK;
	hid_t object = H5Aopen(owner, name, H5P_DEFAULT);
	hid_t type = H5Aget_type(object), space = H5Aget_space(object);
	tomos_status status =
		type >= 0 && space >= 0 ? read_text(type, space, H5Aread, object, text) : TOMOS_OK;
	drop(space);
	drop(type);
	drop(object);
	return status;
}

static tomos_status text_locked(const File *file, const char *name, char **text)
{
	const Hdf5 *own = file->own;
	const char *mark = strchr(name, '@');
	char path[512];
	snprintf(path, sizeof path, "%.*s", mark ? (int)(mark - name) : (int)strlen(name), name);
	bool root = strspn(path, "/") == strlen(path);
	if (!root && !has_object(own->file, path))
		return TOMOS_OK;
	hid_t object = H5Oopen(own->file, root ? "/" : path, H5P_DEFAULT);
	tomos_status status = TOMOS_OK;
	if (object >= 0 && mark)
		status = text_of_attribute(object, mark + 1, text);
	else if (object >= 0 && H5Iget_type(object) == H5I_DATASET)
		status = text_of_dataset(object, text);
	drop(object);
	return status;
}

static tomos_status hdf5_text(const File *file, const char *name, char **text)
{
	Quiet quiet = enter();
	return leave(quiet, text_locked(file, name, text));
}

typedef struct {
	char *names;
	tomos_status status;
} NameList;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
	NameList *list = user;
	char *longer = NULL;
	(void)group;
	(void)info;
	list->status = mem_printf(&longer, "%s%s\n", list->names ? list->names : "", name);
	if (list->status != TOMOS_OK)
		return 1;
	mem_free(list->names);
	list->names = longer;
	return 0;
}

static tomos_status names_locked(const File *file, const char *path, char **names)
{
	const Hdf5 *own = file->own;
	NameList list = {NULL, TOMOS_OK};
	bool root = strspn(path, "/") == strlen(path);
	hid_t group = root || has_object(own->file, path)
			      ? H5Oopen(own->file, root ? "/" : path, H5P_DEFAULT)
			      : H5I_INVALID_HID;
	if (group >= 0 && H5Iget_type(group) == H5I_GROUP)
		(void)H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, add_name, &list);
	drop(group);
	if (list.status != TOMOS_OK) {
		mem_free(list.names);
		list.names = NULL;
	}
	*names = list.names;
	return list.status;
}

static tomos_status hdf5_names(const File *file, const char *group, char **names)
{
	Quiet quiet = enter();
	return leave(quiet, names_locked(file, group, names));
}

/* ---- lists of numbers, as matrices have them ---------------------------------------------- */

bool hdf5_is(const unsigned char *head, size_t length)
{
	return hdf5_probe(head, length);
}

static tomos_status write_list(hid_t file, const char *path, const NamedList *list)
{
	hsize_t size = (hsize_t)list->count;
	hid_t dataset = make_dataset(file, list->name, memory_type(list->element), 1, &size, 0);
	bool written = dataset >= 0 && H5Dwrite(dataset, memory_type(list->element), H5S_ALL,
					       H5S_ALL, H5P_DEFAULT, list->data) >= 0;
	written &= landed(hdf5_disk_failure(file));
	drop(dataset);
	return written ? TOMOS_OK : refuse(TOMOS_IO, path, list->name, "cannot be written");
}

static tomos_status write_lists(
	const char *temporary, const char *path, const NamedList *lists, int count)
{
	hid_t access = access_list(true);
	hid_t file = H5Fcreate(temporary, H5F_ACC_EXCL, H5P_DEFAULT, access);
	tomos_status status = TOMOS_OK;
	drop(access);
	if (file < 0) {
		(void)landed(hdf5_disk_failure(file));
		return refuse(TOMOS_IO, path, NULL, "cannot be created");
	}
	if (!put_attribute(file, "tomos", TOMOS_VERSION) ||
		!put_attribute(file, "content", "matrix"))
		status = refuse(TOMOS_IO, path, NULL, "cannot be created");
	for (int i = 0; i < count && status == TOMOS_OK; i++)
		status = write_list(file, path, &lists[i]);
	if (status == TOMOS_OK && H5Fflush(file, H5F_SCOPE_LOCAL) < 0)
		status = refuse(TOMOS_IO, path, NULL, "cannot be written to its end");
	if (!landed(hdf5_disk_close(file)) && status == TOMOS_OK)
		status = refuse(TOMOS_IO, path, NULL, "cannot be written to its end");
	return status;
}

tomos_status hdf5_lists_write(
	const char *temporary, const char *path, const NamedList *lists, int count)
{
	Quiet quiet = enter();
	return leave(quiet, write_lists(temporary, path, lists, count));
}

static tomos_status read_list(hid_t dataset, const char *path, NamedList *list)
{
	Form form;
	if (!take_element(dataset, &form.element) || !take_axes(dataset, &form) || form.rank != 1)
		return refuse(TOMOS_BAD_FILE, path, list->name, "is no list of numbers");
	TRY(check_storage(dataset, &form, path, list->name));
	list->element =
		form.element.kind == 'f' ? (Element){'f', 4, false} : (Element){'i', 8, false};
	list->count = form.axes[0];
	TRY(mem_alloc(
		&list->data, list->count, (size_t)list->element.bytes, "numbers of an HDF5 file"));
	if (H5Dread(dataset, memory_type(list->element), H5S_ALL, H5S_ALL, H5P_DEFAULT,
		    list->data) < 0)
		return refuse(TOMOS_BAD_FILE, path, list->name, "cannot be read");
	return TOMOS_OK;
}

static tomos_status read_lists(const char *path, NamedList *lists, int count)
{
	hid_t access = access_list(false), file = H5Fopen(path, H5F_ACC_RDONLY, access);
	tomos_status status = TOMOS_OK;
	drop(access);
	if (file < 0)
		return refuse(TOMOS_BAD_FILE, path, NULL, "cannot be opened as an HDF5 file");
	for (int i = 0; i < count && status == TOMOS_OK; i++) {
		hid_t dataset = has_object(file, lists[i].name)
					? H5Dopen2(file, lists[i].name, H5P_DEFAULT)
					: H5I_INVALID_HID;
		if (dataset >= 0)
			status = read_list(dataset, path, &lists[i]);
		drop(dataset);
	}
	(void)H5Fclose(file);
	return status;
}

tomos_status hdf5_lists_read(const char *path, NamedList *lists, int count)
{
	TRY(check_first_block(path));
	Quiet quiet = enter();
	return leave(quiet, read_lists(path, lists, count));
}

const Format format_hdf5 = {
	.name = "hdf5",
	.endings = "h5|hdf5|hdf|nxs",
	.probe = hdf5_probe,
	.open = hdf5_open,
	.read = hdf5_read,
	.create = hdf5_create,
	.write = hdf5_write,
	.finish = hdf5_finish,
	.close = hdf5_close,
	.get = hdf5_get,
	.put = hdf5_put,
	.put_text = hdf5_put_text,
	.seal = hdf5_seal,
	.sync = hdf5_sync,
	.text = hdf5_text,
	.names = hdf5_names,
};
