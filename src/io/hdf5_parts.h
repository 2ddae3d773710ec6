/* Declarations for the source files of the HDF5 format. */
#ifndef TOMOS_IO_HDF5_PARTS_H
#define TOMOS_IO_HDF5_PARTS_H

#include <hdf5.h>
#include "io/filters.h"
#include "io/hdf5_disk.h"
#include "io/io.h"

typedef struct Pack Pack;
typedef struct Chunks Chunks;

typedef struct {
	hid_t file, dataset;
	hid_t memory;     /* reading: the type of the numbers in memory, that of `File.element` */
	Pack *pack;       /* compressed data being written; NULL: none */
	int rank;         /* of the dataset as stored */
	GridNumbers grid; /* writing NeXus files */
	/* Data that are not read and written by the library: */
	Plain plain;    /* contiguous ones; descriptor -1: none */
	Chunks *chunks; /* reading: chunks; NULL: none */
} Hdf5;

/* ---- serialised access to the library, without its printing ---------------------------------- */

typedef struct {
	H5E_auto2_t print;
	void *data;
} Quiet;

Quiet hdf5_enter(void);
tomos_status hdf5_leave(Quiet quiet, tomos_status status);
/* Closes an object of any kind; does nothing for an invalid id. */
void hdf5_drop(hid_t object);
void hdf5_complain(const char *text); /* appended to the next error message */
/* Whether all writes succeeded; otherwise the failure is appended to the next error message. */
bool hdf5_landed(int failure);
/* "'path', dataset '/x': what: message of the library" */
tomos_status hdf5_reject(
	tomos_status status, const char *path, const char *dataset, const char *what);
hid_t hdf5_access(bool create);

/* ---- contents of a file and a dataset -------------------------------------------------------- */

/* One per dataset checked. */
typedef struct {
	Element element;
	int rank;
	int64_t axes[H5S_MAX_RANK];
} Form;

bool dataset_element(hid_t dataset, Element *element);
/* A type in memory for the numbers of a dataset: as they are stored, or if that is no standard type
 * what the library converts them to, which is then *element. */
hid_t dataset_memory(hid_t dataset, Element *element);
bool dataset_axes(hid_t dataset, Form *form);
tomos_status dataset_check(hid_t dataset, const Form *form, const char *path, const char *name);
/* Rejects compressed chunks that the library cannot unpack, because a plug-in is missing. */
tomos_status filters_check(hid_t dataset, const char *path, const char *name);
/* The file that is read, the current nesting depth of virtual datasets, and the number of sources
 * opened so far. */
typedef struct {
	const char *reading;
	int depth;
	int64_t opened;
} Sources;
tomos_status dataset_check_nested(
	hid_t dataset, const Form *form, const char *path, const char *name, Sources *sources);
/* `list`: creation property list of the dataset; only virtual datasets have sources. */
tomos_status sources_check(hid_t list, const char *path, const char *name, Sources *sources);
/* The file `source` named in the file `path`, where the library looks for it: in the folder of
 * `path`, in the working directory, in the folder of the file that the link `path` leads to. If
 * none of these can be read, returns false and the first name. */
enum { SOURCE_NAME = 4096 };
bool source_find(const char *path, const char *source, char found[SOURCE_NAME]);
bool hdf5_has(hid_t file, const char *name);
tomos_status hdf5_check_start(const char *path);

/* ---- creation -------------------------------------------------------------------------------- */

hid_t hdf5_type(Element element); /* in memory and in files */
/* An existing attribute is replaced; an empty text removes it. */
bool hdf5_attribute(hid_t object, const char *name, const char *text);
/* Likewise for an array of `count` texts of `size` bytes each; count 0: one text, no array. */
bool hdf5_attribute_list(
	hid_t object, const char *name, const char *texts, size_t size, hsize_t count);
hid_t hdf5_timeless(hid_t class);
hid_t hdf5_make(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, int compress);

/* Rows of a chunk: a chunk is one index of the first axis, or some rows of it if that is large. */
hsize_t hdf5_chunk_rows(hsize_t rows, hsize_t row_bytes);

/* NeXus: .nxs outputs of volumes and projections. Called with the lock. */
bool nexus_is(const File *file);
bool nexus_begin(const File *file);
bool nexus_axes(const File *file, const GridNumbers *grid);

/* ---- reading --------------------------------------------------------------------------------- */

tomos_status hdf5_read(File *file, const Extract *part, int threads, void *stored);
tomos_status hdf5_read_box(File *file, const Samples *samples, int threads, void *stored);
/* Decides, for an open dataset, how it is read. */
tomos_status hdf5_read_prepare(File *file);
/* The size of a file open for reading, and the descriptor of an ordinary one, otherwise -1. */
int hdf5_descriptor(hid_t file, int64_t *size);

/* `list`: creation property list. Leaves Hdf5.chunks NULL if the library must read them. */
tomos_status chunks_open(File *file, hid_t list);
tomos_status chunks_read(File *file, const Samples *part, int threads, void *stored);
void chunks_close(Hdf5 *own);
/* Filter i of a creation property list; false if it has too many parameters. */
enum { FILTER_NAME = 64 };
bool filter_take(hid_t list, int i, Filter *filter, char name[FILTER_NAME]);

/* ---- compressed data ------------------------------------------------------------------------- */

/* *pack must be closed also after a failure. */
tomos_status pack_open(const File *file, Pack **pack);
tomos_status pack_write(
	const File *file, int64_t first, int64_t count, int threads, const void *stored);
/* Whether chunks are in a file of their own. */
bool pack_waits(const Pack *pack);
/* Takes over the chunks that other processes have written. */
tomos_status pack_merge(const File *file);
/* Moves the chunks into the dataset; called with the lock held. */
tomos_status pack_gather(const File *file);
tomos_status pack_read_back(const File *file, int64_t index, void *stored);
void pack_close(Pack *pack);

/* ---- by name --------------------------------------------------------------------------------- */

tomos_status hdf5_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status hdf5_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status hdf5_put_text(File *file, const char *name, const char *text);
tomos_status hdf5_text(const File *file, const char *name, char **text);
tomos_status hdf5_names(const File *file, const char *group, char **names);
tomos_status hdf5_sources(const File *file, TakePath take, void *user);

#endif
