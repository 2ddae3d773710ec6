/* Declarations for the source files of the Zarr format. */
#ifndef TOMOS_IO_ZARR_PARTS_H
#define TOMOS_IO_ZARR_PARTS_H

#include <jansson.h>
#include <pthread.h>
#include "io/filters.h"
#include "io/io.h"

enum {
	ZARR_CHUNK = 64,  /* voxels along the edge of a chunk that is written, */
	ZARR_SHARD = 8,   /* and chunks along the edge of a shard */
	ZARR_LAST = 64,   /* levels end when no axis is longer */
	ZARR_LEVELS = 32, /* most levels of a file */
	ZARR_CODECS = 4,  /* most codecs of bytes after each other */
};

/* ---- arrays ---------------------------------------------------------------------------------- */

typedef enum { CODEC_CRC32C, CODEC_ZSTD, CODEC_GZIP, CODEC_ZLIB, CODEC_BLOSC, CODEC_LZ4 } Codec;

/* How the numbers of a chunk become bytes: axes in the order in which they are stored, byte order,
 * then codecs of bytes, the last one applied last. */
typedef struct {
	int axes[3];
	bool big;
	Codec list[ZARR_CODECS];
	int count;
} Codecs;

/* An array in a directory. A chunk file holds `chunk` numbers, which are `inner` ones packed
 * together, or a shard of several such inner chunks with an index. */
typedef struct {
	char *folder;
	int version, rank; /* rank: of the keys of chunks; leading axes have one index */
	bool prefixed;     /* keys begin with "c" */
	char separator;    /* of the numbers of a key */
	int64_t shape[3], chunk[3], inner[3];
	bool sharded, index_first;
	Codecs codecs, index; /* of inner chunks; of the index of a shard */
	Element element;
	unsigned char fill[8]; /* number that stands for missing chunks, as stored */
	bool whole;            /* written by tomos, with all chunks: none may be missing */
} ZarrArray;

/* The array of a directory, from its zarr.json or .zarray. */
tomos_status zarr_array_open(ZarrArray *array, const char *folder);
/* The array that metadata describe; `path` is for messages. */
tomos_status zarr_array_parse(ZarrArray *array, const json_t *root, const char *path, int version);
void zarr_array_close(ZarrArray *array);
int64_t zarr_inner_bytes(const ZarrArray *array);
/* The path of a chunk file; to be freed. */
tomos_status zarr_chunk_path(const ZarrArray *array, const int64_t at[3], char **path);
/* Samples inside the shape; only chunks that hold some are read. */
tomos_status zarr_read_samples(
	const ZarrArray *array, const Samples *samples, int threads, void *stored);

/* A chunk that is unpacked: `bytes` bytes at `in` become `expected` bytes at *out, which is one of
 * two buffers of zarr_room(expected) bytes, or `in`. */
int64_t zarr_room(int64_t expected);
tomos_status zarr_unpack(const Codecs *codecs, Unpacker *u, unsigned char *const buffers[2],
	unsigned char *in, int64_t bytes, int64_t expected, unsigned char **out, const char *path);

/* Place of an inner chunk in a shard; offset UINT64_MAX: it is missing. */
typedef struct {
	uint64_t offset, bytes;
} ShardEntry;
/* The index of an open shard of `size` bytes; to be freed. */
tomos_status zarr_index_read(const ZarrArray *array, int descriptor, int64_t size, const char *path,
	ShardEntry **entries);
int64_t zarr_index_count(const ZarrArray *array);

static inline int64_t parts_of(int64_t n, int64_t part)
{
	return (n + part - 1) / part;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

tomos_status json_read(json_t **root, const char *path);
tomos_status json_write(const json_t *root, const char *path);
/* A list of `count` numbers; false: it is none. */
bool json_numbers(const json_t *list, double *numbers, int count);

/* ---- the description of images -------------------------------------------------------------- */

/* Position of voxels along z, y and x: translation + scale * index. */
typedef struct {
	double scale[3], translation[3];
} ZarrPlace;

typedef struct {
	int count;
	char *paths[ZARR_LEVELS];
	ZarrPlace places[ZARR_LEVELS]; /* in mm where the unit is known */
	bool placed;                   /* the file has places, */
	char unit[UNIT_NAME];          /* in this unit; "": not said */
} ZarrLevels;

/* The levels that attributes describe; count 0: they do not. */
tomos_status zarr_levels_parse(ZarrLevels *levels, const json_t *attributes, const char *path);
void zarr_levels_close(ZarrLevels *levels);

/* ---- a file ---------------------------------------------------------------------------------- */

typedef struct ZarrWriter ZarrWriter;

typedef struct {
	ZarrArray array; /* reading: of the level that is open */
	ZarrLevels levels;
	int level, version;
	bool alone;    /* an array was named: other levels are not offered */
	json_t *named; /* numbers and texts by their paths */
	ZarrWriter *writer;
} Zarr;

tomos_status zarr_make(File *file, Zarr **own);
tomos_status zarr_named_read(Zarr *own, const char *folder);
tomos_status zarr_named_write(const Zarr *own, const char *folder);
tomos_status zarr_get(const File *file, const char *name, double **values, int64_t shape[2]);
tomos_status zarr_put(File *file, const char *name, const double *values, const int64_t shape[2]);
tomos_status zarr_put_text(File *file, const char *name, const char *text);
tomos_status zarr_text(const File *file, const char *name, char **text);
tomos_status zarr_names(const File *file, const char *group, char **names);

/* ---- writing --------------------------------------------------------------------------------- */

/* A layer of chunks that will be packed: it is packed already, perhaps by an earlier process, or
 * nothing of it is written; one thread packs or unpacks it; slices can be written. */
enum { LAYER_CLOSED, LAYER_BUSY, LAYER_OPEN };

/* One level under construction. */
typedef struct {
	ZarrArray array;
	int64_t factor[3];     /* of this level's voxels to those of level 0 */
	int64_t per[2];        /* chunks along y and x */
	int64_t piece;         /* bytes of a slice of a chunk */
	int64_t slot;          /* bytes from a chunk to the next in a shard that is not packed */
	unsigned char *done;   /* by this process, one per slice */
	unsigned char *layers; /* the state of each layer of chunks that will be packed */
	uint32_t *sums;        /* CRC-32C of each slice of each chunk; NULL: not needed */
} ZarrLevel;

/* Sums of 2 x 2 voxels of a slice whose neighbour is not written yet. */
typedef struct PendingSums {
	struct PendingSums *next;
	int level;
	int64_t slice;
	float *sums;
} PendingSums;

/* Memory of a slice that is not in use; it begins with this. */
typedef struct SpareSlice {
	struct SpareSlice *next;
} SpareSlice;

typedef struct ZarrMapped ZarrMapped;

struct ZarrWriter {
	int count;
	ZarrLevel levels[ZARR_LEVELS];
	bool direct; /* chunks have fixed places in shards; else layers are packed when whole */
	float *low, *high;    /* of each slice, as stored */
	PendingSums *pending; /* the latest first */
	int pending_count, pending_most;
	SpareSlice *spares[ZARR_LEVELS]; /* for slices of the level after */
	ZarrMapped *mapped;              /* NULL: shards are written by system calls */
	pthread_mutex_t spare_lock;
	int log; /* of a process that has joined: descriptor, otherwise -1; */
	int64_t log_end;
	pthread_mutex_t lock; /* of `done`, `layers`, ranges, pending sums and the log */
	pthread_cond_t freed; /* a layer is no longer busy */
};

/* Memory for floats of a slice of the level after this one, which is used again. */
tomos_status slice_take(ZarrWriter *writer, int level, void *slice);
void slice_give(ZarrWriter *writer, int level, void *slice);
/* Sums of a slice: not filled in; freed; taken out of the list, NULL where they are not; added, for
 * which the oldest ones are dropped if there are too many. The last two with the lock held. */
tomos_status pending_new(ZarrWriter *writer, int level, int64_t slice, PendingSums **pending);
void pending_free(ZarrWriter *writer, PendingSums *pending);
PendingSums *pending_take(ZarrWriter *writer, int level, int64_t slice);
void pending_keep(ZarrWriter *writer, PendingSums *pending);

/* As of a Format. */
tomos_status zarr_reserve(File *file, double bytes);
void mapped_close(ZarrMapped *mapped);
/* The chunks of a layer that are in a shard, in memory that they are written to; NULL: they are
 * written by system calls. `slices`: of the layer, that were written meanwhile. */
char *mapped_take(ZarrMapped *mapped, int level, int64_t layer, int64_t shard);
void mapped_give(ZarrMapped *mapped, int level, int64_t layer, int64_t shard, int64_t slices);

tomos_status zarr_create(File *file);
double zarr_write_bytes(const int64_t shape[3]);
void zarr_writer_close(ZarrWriter *writer);
tomos_status zarr_write(File *file, int64_t first, int64_t count, int threads, const void *stored);
tomos_status zarr_read_back(File *file, int64_t index, void *stored);
tomos_status zarr_read_back_rows(File *file, const Extract *part, int threads, void *stored);
tomos_status zarr_seal(File *file);
tomos_status zarr_merge(File *file);
tomos_status zarr_finish(File *file);
/* Root, levels and named numbers; low > high: the range is not known. */
tomos_status zarr_metadata_write(const File *file, double low, double high);

/* Head of a slice's entry in the log of a process that has joined; its checksums follow. */
typedef struct {
	int64_t level, slice;
	float low, high;
} LogHead;

/* Slices of a level, whose pieces are written to their places, or only looked at. */
typedef struct {
	int level;
	int64_t first, count;
	const char *stored;
	bool written;       /* they are in the file already */
	PendingSums **sums; /* of a slice that is alone, filled with its pieces; NULL: not made */
} Slices;
tomos_status pieces_write(File *file, const Slices *slices, int threads);
tomos_status pieces_read(const File *file, int level, int64_t slice, void *stored);
/* Smallest and largest number of rows of up to ZARR_CHUNK numbers, `stride` apart; NaN is left
 * out. */
void range_widen(Element element, const void *rows, int64_t count, int64_t stride, int64_t n,
	float range[2]);
/* Pairs of smallest and largest numbers of a part of each of these slices. */
void ranges_begin(const File *file, int64_t first, int64_t count);
void ranges_add(const File *file, int64_t first, int64_t count, const float *ranges);
/* The path of the file that a layer of chunks is collected in; to be freed. */
tomos_status stage_path(const File *file, int level, int64_t layer, char **path);
/* Opens a file for reading and writing, with the directories of its name; `path` is for messages,
 * and `name` is changed for a while. */
tomos_status zarr_open_making(int *descriptor, char *name, const char *path);
/* Packs a layer whose slices are all there. */
tomos_status layer_pack(File *file, int level, int64_t layer, int threads);
/* The opposite, if the layer is packed, so that slices of it can be written again. Only one thread
 * of a process may do this for a layer. */
tomos_status layer_unpack(const File *file, int level, int64_t layer);
/* The samples of chunk `number` of a layer, as far as it lies in the array. */
Samples chunk_samples(const ZarrLevel *level, int64_t layer, int64_t number);
/* The checksums of chunks, and the indices of shards that are not packed. */
tomos_status shards_complete(File *file, int threads);

/* Sums of 2 x 2 numbers of a row pair, and the mean of two such rows in the type of the file. */
void half_row(Element element, const void *upper, const void *lower, int64_t n, float *sums);
void mean_row(Element element, const float *a, const float *b, int64_t n, void *stored);
/* Writes slices of a level and those of the next levels that can be made with them. */
tomos_status level_write(File *file, const Slices *slices, int threads);
/* Makes what is missing of level 1 and on, of chunks that are not packed. */
tomos_status levels_complete(File *file, int threads);

#endif
