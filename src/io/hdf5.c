/* HDF5: the data as one dataset, named numbers as small datasets in the same file.
 *
 * The HDF5 library is not thread-safe, so one mutex guards every call. Its error printing is
 * disabled meanwhile, and its innermost message is appended to ours. Files are written in the
 * layout of HDF5 1.8, whose metadata have checksums, with contiguous data: a slab is then one range
 * of bytes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "io/hdf5_parts.h"
#include "io/matrix_file.h"

/* ---- which dataset --------------------------------------------------------------------------- */

static const struct {
	const char *name;
	tomos_content content;
} usual[] = {{"/volume", TOMOS_VOLUME}, {"/projections", TOMOS_PROJECTIONS},
	{"/exchange/data", TOMOS_PROJECTIONS}};

typedef struct {
	char first[512], all[512];
	int count;
} Candidates;

static bool is_candidate(hid_t object)
{
	Form form;
	return H5Iget_type(object) == H5I_DATASET && dataset_element(object, &form.element) &&
	       dataset_axes(object, &form) && (form.rank == 2 || form.rank == 3);
}

static herr_t look_at(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
	Candidates *found = user;
	(void)info;
	hid_t object = H5Oopen(group, name, H5P_DEFAULT);
	bool fits = object >= 0 && strlen(name) + 2 < sizeof found->first && is_candidate(object);
	hdf5_drop(object);
	if (!fits)
		return 0;
	if (found->count == 0)
		snprintf(found->first, sizeof found->first, "/%s", name);
	io_add_name(found->all, sizeof found->all, found->count++, "/", name);
	return 0;
}

static tomos_status search_dataset(File *file, hid_t id)
{
	Candidates found = {.count = 0};
	if (H5Lvisit(id, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, &found) < 0)
		return hdf5_reject(TOMOS_BAD_FILE, file->path, NULL, "its groups cannot be read");
	if (found.count == 1)
		return mem_text(&file->dataset, found.first);
	if (found.count == 0)
		return fail(TOMOS_BAD_FILE, "'%s' has no dataset of numbers with two or three axes",
			file->path);
	return fail(TOMOS_BAD_VALUE,
		"'%s' has %d datasets that could be meant; name one of %s, as "
		"'%s:/...' or with the option 'dataset'",
		file->path, found.count, found.all, file->path);
}

static tomos_status choose_dataset(File *file, hid_t id, const char *wanted)
{
	if (wanted && *wanted)
		return mem_printf(&file->dataset, "%s%s", *wanted == '/' ? "" : "/", wanted);
	for (int i = 0; i < COUNT(usual); i++)
		if (hdf5_has(id, usual[i].name))
			return mem_text(&file->dataset, usual[i].name);
	return search_dataset(file, id);
}

/* ---- reading --------------------------------------------------------------------------------- */

static tomos_status open_dataset(File *file, Hdf5 *own)
{
	Form form;
	char *where;
	own->dataset = hdf5_has(own->file, file->dataset)
			       ? H5Dopen2(own->file, file->dataset, H5P_DEFAULT)
			       : H5I_INVALID_HID;
	if (own->dataset < 0)
		return hdf5_reject(
			TOMOS_BAD_FILE, file->path, file->dataset, "is not a dataset of the file");
	if (!dataset_element(own->dataset, &form.element))
		return fail(TOMOS_UNSUPPORTED,
			"'%s', dataset '%s': only integers and floats of 8 to 64 bits can be read",
			file->path, file->dataset);
	if (!dataset_axes(own->dataset, &form))
		return hdf5_reject(
			TOMOS_BAD_FILE, file->path, file->dataset, "its shape cannot be read");
	own->rank = form.rank;
	file->element = form.element;
	own->memory = dataset_memory(own->dataset, &file->element);
	TRY(mem_printf(&where, "'%s', dataset '%s'", file->path, file->dataset));
	tomos_status status = shape_take(file->shape, form.axes, form.rank, where);
	mem_free(where);
	TRY(status);
	TRY(dataset_check(own->dataset, &form, file->path, file->dataset));
	return hdf5_read_prepare(file);
}

static tomos_status make_own(File *file, Hdf5 **own)
{
	TRY(mem_alloc(own, 1, sizeof **own, "an HDF5 file's description"));
	**own = (Hdf5){.file = H5I_INVALID_HID,
		.dataset = H5I_INVALID_HID,
		.memory = H5I_INVALID_HID,
		.plain.descriptor = -1};
	file->own = *own;
	return TOMOS_OK;
}

static tomos_status open_locked(File *file, Hdf5 *own, const char *wanted)
{
	hid_t access = hdf5_access(false);
	own->file = H5Fopen(file->path, H5F_ACC_RDONLY, access);
	hdf5_drop(access);
	if (own->file < 0)
		return hdf5_reject(
			TOMOS_BAD_FILE, file->path, NULL, "cannot be opened as an HDF5 file");
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
	TRY(hdf5_check_start(file->path));
	Quiet quiet = hdf5_enter();
	return hdf5_leave(quiet, open_locked(file, own, options->dataset));
}

/* ---- writing --------------------------------------------------------------------------------- */

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
	hid_t list = hdf5_timeless(H5P_FILE_CREATE);
	own->file = H5Fcreate(file->temporary, H5F_ACC_EXCL, list, access);
	hdf5_drop(list);
	if (own->file >= 0)
		own->dataset = hdf5_make(own->file, file->dataset, hdf5_type(file->element), 3,
			sizes, file->compress);
	return own->dataset >= 0 && hdf5_attribute(own->file, "tomos", TOMOS_VERSION) &&
	       hdf5_attribute(own->file, "content", content_name(file->content)) &&
	       (!nexus_is(file) || nexus_begin(file)) && H5Fflush(own->file, H5F_SCOPE_LOCAL) >= 0;
}

static bool open_again(const File *file, Hdf5 *own, hid_t access)
{
	own->file = H5Fopen(file->temporary, H5F_ACC_RDWR, access);
	own->dataset =
		own->file >= 0 ? H5Dopen2(own->file, file->dataset, H5P_DEFAULT) : H5I_INVALID_HID;
	return own->dataset >= 0;
}

/* Where uncompressed data are: allocated when the dataset was created. */
static bool find_data(const File *file, Hdf5 *own)
{
	const int64_t *n = file->shape;
	hsize_t bytes = (hsize_t)(n[0] * n[1] * n[2] * file->element.bytes);
	haddr_t at = H5Dget_offset(own->dataset);
	own->plain = (Plain){.descriptor = hdf5_disk_descriptor(own->file), .data = (int64_t)at};
	return own->pack || (at != HADDR_UNDEF && own->plain.descriptor >= 0 &&
				    H5Dget_storage_size(own->dataset) == bytes);
}

static tomos_status create_locked(File *file, Hdf5 *own)
{
	hid_t access = hdf5_access(true);
	own->rank = 3;
	bool made = file->continued ? open_again(file, own, access) : create_new(file, own, access);
	hdf5_drop(access);
	if (!hdf5_landed(hdf5_disk_failure(own->file)) || !made || !find_data(file, own))
		return hdf5_reject(TOMOS_IO, file->path, NULL,
			file->continued ? "what was begun cannot be opened" : "cannot be created");
	return TOMOS_OK;
}

/* A process that has joined writes data and nothing else, so it does without the library. */
static tomos_status join_plain(File *file, Hdf5 *own)
{
	own->plain.data = file->data_at;
	TRY(file_descriptor(file, &own->plain.descriptor));
	return plain_begin(file, &own->plain);
}

static tomos_status hdf5_create(File *file)
{
	Hdf5 *own;
	TRY(make_own(file, &own));
	TRY(mem_printf(&file->dataset, "/%s", content_name(file->content)));
	if (file->compress)
		TRY(pack_open(file, &own->pack));
	if (file->part)
		return own->pack ? TOMOS_OK : join_plain(file, own);
	Quiet quiet = hdf5_enter();
	TRY(hdf5_leave(quiet, create_locked(file, own)));
	return own->pack ? TOMOS_OK : plain_begin(file, &own->plain);
}

static tomos_status hdf5_write(
	File *file, int64_t first, int64_t count, int threads, const void *stored)
{
	const Hdf5 *own = file->own;
	return own->pack ? pack_write(file, first, count, threads, stored)
			 : plain_write(file, &own->plain, first, count, threads, stored);
}

static bool close_locked(Hdf5 *own)
{
	reserve_close(&own->plain.reserve);
	bool closed = own->dataset < 0 || H5Dclose(own->dataset) >= 0;
	closed &= own->file < 0 || hdf5_landed(hdf5_disk_close(own->file));
	hdf5_drop(own->memory);
	own->dataset = own->file = own->memory = H5I_INVALID_HID;
	own->plain.descriptor = -1; /* it was the library's */
	chunks_close(own);
	return closed;
}

/* Closes and reopens the file: its space is then allocated, so that this process, or a later one
 * that resumes, writes data only into existing places. */
static tomos_status hdf5_seal(File *file)
{
	Hdf5 *own = file->own;
	tomos_status status = TOMOS_OK;
	Quiet quiet = hdf5_enter();
	bool closed = H5Fflush(own->file, H5F_SCOPE_LOCAL) >= 0;
	closed &= close_locked(own);
	hid_t access = hdf5_access(true);
	if (!closed || !open_again(file, own, access) || !find_data(file, own))
		status = hdf5_reject(TOMOS_IO, file->path, NULL, "cannot be written");
	hdf5_drop(access);
	TRY(hdf5_leave(quiet, status));
	return own->pack ? TOMOS_OK : plain_begin(file, &own->plain);
}

static tomos_status hdf5_read_back(File *file, int64_t index, void *stored)
{
	const Hdf5 *own = file->own;
	return own->pack ? pack_read_back(file, index, stored)
			 : plain_read_back(file, &own->plain, index, stored);
}

/* The range of bytes of a contiguous dataset; [0, 0) if it has none. */
static void find_hole(hid_t dataset, int64_t hole[2])
{
	haddr_t at = dataset >= 0 ? H5Dget_offset(dataset) : HADDR_UNDEF;
	if (at == HADDR_UNDEF)
		return;
	hole[0] = (int64_t)at;
	hole[1] = hole[0] + (int64_t)H5Dget_storage_size(dataset);
}

/* The holes are the data, and the checksums, which are rewritten when all data are complete. */
static tomos_status hdf5_frame(File *file, Frame *frame)
{
	const Hdf5 *own = file->own;
	int64_t holes[2][2] = {{0}};
	int descriptor;
	Quiet quiet = hdf5_enter();
	hid_t sums = H5Dopen2(own->file, CHECKSUMS, H5P_DEFAULT);
	find_hole(own->pack ? H5I_INVALID_HID : own->dataset, holes[0]);
	find_hole(sums, holes[1]);
	hdf5_drop(sums);
	TRY(hdf5_leave(quiet, TOMOS_OK));
	bool swap = holes[1][0] < holes[0][0];
	memcpy(frame->holes[0], holes[swap], sizeof holes[0]);
	memcpy(frame->holes[1], holes[!swap], sizeof holes[0]);
	TRY(flat_open(&descriptor, &frame->bytes, file->temporary));
	return flat_close(&descriptor, file->path);
}

static int64_t hdf5_data_at(const File *file)
{
	const Hdf5 *own = file->own;
	return own->plain.data;
}

static tomos_status hdf5_merge(File *file)
{
	const Hdf5 *own = file->own;
	return own->pack ? pack_merge(file) : TOMOS_OK;
}

static tomos_status hdf5_sync(File *file)
{
	const Hdf5 *own = file->own;
	if (file->part)
		return TOMOS_OK;
	tomos_status status = TOMOS_OK;
	Quiet quiet = hdf5_enter();
	if (H5Fflush(own->file, H5F_SCOPE_LOCAL) < 0 || !hdf5_landed(hdf5_disk_failure(own->file)))
		status = hdf5_reject(TOMOS_IO, file->path, NULL, "cannot be written");
	return hdf5_leave(quiet, status);
}

/* Copies a file that does not contain its data yet, and is small. */
static tomos_status copy_file(const char *from, const char *to, const char *path)
{
	int in = -1, out = -1;
	int64_t size = 0;
	char *bytes = NULL;
	tomos_status status;
	TRY_OR_DONE(flat_open(&in, &size, from));
	TRY_OR_DONE(mem_alloc(&bytes, size, 1, "an HDF5 file without its data"));
	TRY_OR_DONE(flat_read(in, path, 0, bytes, size));
	(void)unlink(to);
	TRY_OR_DONE(flat_create(&out, to, path));
	TRY_OR_DONE(flat_write(out, path, 0, bytes, size));
done:
	mem_free(bytes);
	(void)flat_close(&in, path);
	tomos_status closed = flat_close(&out, path);
	return status != TOMOS_OK ? status : closed;
}

static tomos_status gather_locked(File *file, Hdf5 *own, const char *whole)
{
	hid_t access = hdf5_access(true);
	own->file = H5Fopen(whole, H5F_ACC_RDWR, access);
	hdf5_drop(access);
	if (own->file >= 0)
		own->dataset = H5Dopen2(own->file, file->dataset, H5P_DEFAULT);
	if (own->dataset < 0)
		return hdf5_reject(TOMOS_IO, file->path, NULL, "what was begun cannot be opened");
	TRY(pack_gather(file));
	return close_locked(own)
		       ? TOMOS_OK
		       : hdf5_reject(TOMOS_IO, file->path, NULL, "cannot be written to its end");
}

/* Works on a copy that replaces the file at the end: if the process is killed meanwhile, the file
 * is unchanged. */
static tomos_status gather(File *file, Hdf5 *own)
{
	char *whole;
	TRY(mem_printf(&whole, "%s" IO_WHOLE_ENDING, file->temporary));
	tomos_status status = copy_file(file->temporary, whole, file->path);
	if (status == TOMOS_OK) {
		Quiet quiet = hdf5_enter();
		status = hdf5_leave(quiet, gather_locked(file, own, whole));
	}
	if (status != TOMOS_OK) {
		mem_free(whole);
		return status;
	}
	mem_free(file->temporary);
	file->temporary = whole;
	return TOMOS_OK;
}

static tomos_status hdf5_finish(File *file)
{
	tomos_status status = TOMOS_OK;
	Quiet quiet = hdf5_enter();
	Hdf5 *own = file->own;
	if (H5Fflush(own->file, H5F_SCOPE_LOCAL) < 0 || !close_locked(own))
		status = hdf5_reject(TOMOS_IO, file->path, NULL, "cannot be written to its end");
	TRY(hdf5_leave(quiet, status));
	return pack_waits(own->pack) ? gather(file, own) : TOMOS_OK;
}

static void hdf5_close(File *file)
{
	Hdf5 *own = file->own;
	Quiet quiet = hdf5_enter();
	int joined = file->part ? own->plain.descriptor : -1;
	(void)close_locked(own);
	(void)flat_close(&joined, file->path);
	(void)hdf5_leave(quiet, TOMOS_OK);
	pack_close(own->pack);
	mem_free(own);
}

const Format format_hdf5 = {
	.name = "hdf5",
	.endings = "h5|hdf5|hdf|nxs",
	.probe = hdf5_is,
	.open = hdf5_open,
	.read = hdf5_read,
	.read_box = hdf5_read_box,
	.create = hdf5_create,
	.write = hdf5_write,
	.finish = hdf5_finish,
	.close = hdf5_close,
	.get = hdf5_get,
	.put = hdf5_put,
	.put_text = hdf5_put_text,
	.seal = hdf5_seal,
	.sync = hdf5_sync,
	.read_back = hdf5_read_back,
	.frame = hdf5_frame,
	.data_at = hdf5_data_at,
	.merge = hdf5_merge,
	.sources = hdf5_sources,
	.text = hdf5_text,
	.names = hdf5_names,
};
