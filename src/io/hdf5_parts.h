/* What the files of the HDF5 format share. */
#ifndef TOMOS_IO_HDF5_PARTS_H
#define TOMOS_IO_HDF5_PARTS_H

#include <hdf5.h>
#include "io/hdf5_disk.h"
#include "io/io.h"

typedef struct Pack Pack;

typedef struct {
	hid_t file, dataset;
	Pack *pack; /* compressed data being written; NULL: none */
	int rank;   /* of the dataset as stored */
} Hdf5;

/* ---- the library, one caller at a time, without its printing ------------------------------ */

typedef struct {
	H5E_auto2_t print;
	void *data;
} Quiet;

Quiet hdf5_enter(void);
tomos_status hdf5_leave(Quiet quiet, tomos_status status);
/* Closes an object of any kind, if it was opened at all. */
void hdf5_drop(hid_t object);
void hdf5_complain(const char *text); /* what a message will end with */
/* Whether all that was written reached the disk; what did not is the complaint then. */
bool hdf5_landed(int failure);
/* "'path', dataset '/x': what: what the library says" */
tomos_status hdf5_reject(
	tomos_status status, const char *path, const char *dataset, const char *what);
hid_t hdf5_access(bool create);

/* ---- what a file and a dataset hold ------------------------------------------------------- */

/* One per dataset looked at. */
typedef struct {
	Element element;
	int rank;
	int64_t axes[H5S_MAX_RANK];
} Form;

bool dataset_element(hid_t dataset, Element *element);
bool dataset_axes(hid_t dataset, Form *form);
tomos_status dataset_check(hid_t dataset, const Form *form, const char *path, const char *name);
/* The file that is read, how deep virtual datasets are nested at this point, and how many sources were
 * opened so far. */
typedef struct {
	const char *reading;
	int depth;
	int64_t opened;
} Sources;
tomos_status dataset_check_nested(
	hid_t dataset, const Form *form, const char *path, const char *name, Sources *sources);
/* `list`: how the dataset was created; those that are not virtual have no sources. */
tomos_status sources_check(hid_t list, const char *path, const char *name, Sources *sources);
bool hdf5_has(hid_t file, const char *name);
tomos_status hdf5_check_start(const char *path);

/* ---- making ------------------------------------------------------------------------------- */

hid_t hdf5_type(Element element); /* in memory and in files */
bool hdf5_attribute(hid_t object, const char *name, const char *text);
hid_t hdf5_timeless(hid_t class);
hid_t hdf5_make(
	hid_t file, const char *name, hid_t type, int rank, const hsize_t *sizes, int compress);

/* Rows of a chunk, which has one index of the first axis, or some rows of it where that is large. */
hsize_t hdf5_chunk_rows(hsize_t rows, hsize_t row_bytes);

/* ---- compressed data ---------------------------------------------------------------------- */

/* *pack is to be closed in every case. */
tomos_status pack_open(const File *file, Pack **pack);
tomos_status pack_write(const File *file, int64_t first, int64_t count, const void *data);
/* Whether the data wait in a file of their own, and their way into the dataset; with the lock held. */
bool pack_waits(const Pack *pack);
tomos_status pack_gather(const File *file);
tomos_status pack_read_back(const File *file, int64_t index, void *stored);
void pack_close(Pack *pack);

/* ---- by name ------------------------------------------------------------------------------ */

tomos_status hdf5_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status hdf5_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status hdf5_put_text(File *file, const char *name, const char *text);
tomos_status hdf5_text(const File *file, const char *name, char **text);
tomos_status hdf5_names(const File *file, const char *group, char **names);
tomos_status hdf5_sources(const File *file, TakePath take, void *user);

#endif
