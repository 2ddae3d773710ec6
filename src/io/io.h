/* Array files of any format behind one face. A file is one array of up to three axes, read and
 * written along the first, with small named numbers and texts attached where the format can hold
 * them (HDF5 alone). This room knows nothing of grids and scans. */
#ifndef IO_H
#define IO_H

#include "base/base.h"

typedef struct Format Format;

/* What a format keeps about an open file; its own part follows in its own struct. */
typedef struct {
	const Format *format;
	char *path;       /* as the user named it */
	char *temporary;  /* where a file under construction lies; NULL when reading */
	char *dataset;    /* HDF5: where the data are, else "" */
	const char *type; /* "float32", "uint16", ... */
	int64_t shape[3];
	tomos_content content;
	bool committed;
	void *own;
} File;

/* One row of formats.def. A function that is NULL is not supported by the format. */
struct Format {
	const char *name;
	const char *endings; /* "h5|hdf5|..." for writing */
	bool (*probe)(const char *path, const unsigned char *head, size_t length);
	tomos_status (*open)(File *file, const tomos_file_options *options);
	tomos_status (*read)(File *file, int64_t first, int64_t count, float *data);
	tomos_status (*create)(File *file);
	tomos_status (*write)(File *file, int64_t first, int64_t count, const float *data);
	tomos_status (*finish)(File *file); /* everything on disk, under the temporary name */
	void (*close)(File *file);
	/* Named numbers: get allocates *values and sets the shape; a name that is not there gives
	 * TOMOS_OK and *values = NULL. */
	tomos_status (*get)(File *file, const char *name, double **values, int64_t shape[2]);
	tomos_status (*put)(File *file, const char *name, const double *values, const int64_t shape[2]);
};

tomos_status io_open(File **file, const char *path, const tomos_file_options *options);
tomos_status io_create(File **file, const char *path, tomos_content content,
	const int64_t shape[3], const tomos_file_options *options);
tomos_status io_read(File *file, int64_t first, int64_t count, float *data);
tomos_status io_write(File *file, int64_t first, int64_t count, const float *data);
tomos_status io_get(File *file, const char *name, double **values, int64_t shape[2]);
tomos_status io_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status io_commit(File *file);
void io_close(File *file);

/* For writers outside the format table (text, JSON, PNG): a temporary name beside `path`, refused if
 * `path` exists and may not be overwritten; then renamed into place, or removed. */
tomos_status io_temporary(char **temporary, const char *path, const tomos_file_options *options);
tomos_status io_publish(char *temporary, const char *path);
void io_discard(char *temporary);

#endif
