/* Writes new files under a temporary name beside their target and renames them when they are
 * complete. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"

enum { WALK_FILES = 16 };    /* directories nftw may hold open at a time */
enum { LONGEST_STEM = 100 }; /* bytes; some encrypted file systems limit names to 143 */

PathParts path_parts(const char *path)
{
	size_t end = strlen(path);
	while (end > 1 && path[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	return (PathParts){(int)start, (int)(end - start)};
}

static tomos_status directory_of(char **directory, const char *path, PathParts parts)
{
	return parts.directory_length ? mem_printf(directory, "%.*s", parts.directory_length, path)
				      : mem_text(directory, "./");
}

static tomos_status check_target(const char *path, const char *directory, bool overwrite)
{
	struct stat info;
	if (stat(directory, &info) != 0)
		return fail(TOMOS_IO, "'%s' cannot be written: directory '%s': %s%s", path,
			directory, strerror(errno), errno == ENOENT ? "; create it first" : "");
	if (!S_ISDIR(info.st_mode))
		return fail(TOMOS_IO, "'%s' cannot be written: '%s' is not a directory", path,
			directory);
	if (access(directory, W_OK | X_OK) != 0)
		return fail(TOMOS_IO, "'%s' cannot be written: no permission to write in '%s'",
			path, directory);
	if (lstat(path, &info) == 0 && !overwrite)
		return fail(TOMOS_IO, "'%s' exists already and overwrite was not asked for", path);
	return TOMOS_OK;
}

/* Length of the beginning of a name that fits into a temporary name, in whole UTF-8 characters. */
static int stem_length(const char *name, int length)
{
	if (length <= LONGEST_STEM)
		return length;
	length = LONGEST_STEM;
	while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static tomos_status free_name(char **name, const char *path, const char *directory, PathParts parts)
{
	static _Atomic int64_t counter;
	struct stat info;
	const char *stem = path + parts.directory_length;
	int length = stem_length(stem, parts.name_length);
	for (;;) {
		TRY(mem_printf(name, "%s.%.*s.%ld.%lld.part", directory, length, stem,
			(long)getpid(), (long long)atomic_fetch_add(&counter, 1)));
		if (lstat(*name, &info) != 0)
			return TOMOS_OK;
		mem_free(*name);
		*name = NULL;
	}
}

/* An unused name in the folder of `path`. */
static tomos_status name_beside(char **temporary, const char *path, bool overwrite)
{
	*temporary = NULL;
	if (!path)
		return fail(TOMOS_BAD_VALUE, "no file to write is named");
	PathParts parts = path_parts(path);
	const char *name = path + parts.directory_length;
	bool dots = strspn(name, "./") == strlen(name) && parts.name_length <= 2;
	if (parts.name_length == 0 || dots)
		return fail(TOMOS_BAD_VALUE, "'%s' is not the name of a file to write", path);
	char *directory;
	TRY(directory_of(&directory, path, parts));
	tomos_status status = check_target(path, directory, overwrite);
	if (status == TOMOS_OK)
		status = free_name(temporary, path, directory, parts);
	mem_free(directory);
	return status;
}

tomos_status file_check(const char *path, bool overwrite)
{
	char *name;
	TRY(name_beside(&name, path, overwrite));
	mem_free(name);
	return TOMOS_OK;
}

tomos_status tomos_output_check(const char *path, int overwrite)
{
	return file_check(path, overwrite != 0);
}

/* Temporary files of this process that are neither published nor discarded. */
typedef struct Pending {
	struct Pending *next;
	pid_t owner; /* a forked child must not remove its parent's */
	char name[];
} Pending;

static Pending *pending;
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;

static tomos_status remember(const char *name)
{
	size_t length = strlen(name) + 1;
	Pending *entry;
	TRY(mem_alloc(&entry, 1, sizeof *entry + length, "a temporary name"));
	entry->owner = getpid();
	memcpy(entry->name, name, length);
	pthread_mutex_lock(&pending_lock);
	entry->next = pending;
	pending = entry;
	pthread_mutex_unlock(&pending_lock);
	return TOMOS_OK;
}

static void forget(const char *name)
{
	pthread_mutex_lock(&pending_lock);
	for (Pending **link = &pending; *link; link = &(*link)->next)
		if (strcmp((*link)->name, name) == 0) {
			Pending *entry = *link;
			*link = entry->next;
			mem_free(entry);
			break;
		}
	pthread_mutex_unlock(&pending_lock);
}

tomos_status file_temporary(char **temporary, const char *path, bool overwrite)
{
	TRY(name_beside(temporary, path, overwrite));
	tomos_status status = remember(*temporary);
	if (status != TOMOS_OK) {
		mem_free(*temporary);
		*temporary = NULL;
	}
	return status;
}

static int sync_path(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -1;
	/* Some file systems cannot sync a directory and return EINVAL; that is not a failure. */
	int failed = fsync(file) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
	close(file);
	errno = failed;
	return failed ? -1 : 0;
}

enum { SYNC_CANCELLED = 1 };

static int sync_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)where;
	if (tomos_cancel_raised(cancel_asked()))
		return SYNC_CANCELLED;
	return kind == FTW_SL ? 0 : sync_path(path);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

/* Another thread may still be writing files into the directory. */
static void remove_tree(const char *path)
{
	struct stat info;
	for (int tries = 0; tries < 10 && (tries == 0 || lstat(path, &info) == 0); tries++)
		(void)nftw(path, remove_entry, WALK_FILES, FTW_DEPTH | FTW_PHYS);
}

static int reject_inner_directory(
	const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)path;
	(void)info;
	return where->level > 0 && (kind == FTW_D || kind == FTW_DNR) ? 1 : 0;
}

/* Whether a directory is a Zarr file, which has directories in it. */
static bool is_zarr(const char *path)
{
	static const char *const marks[] = {"zarr.json", ".zgroup", ".zarray"};
	char name[4096];
	bool found = false;
	for (int i = 0; i < COUNT(marks) && !found; i++) {
		int length = snprintf(name, sizeof name, "%s/%s", path, marks[i]);
		found = length < (int)sizeof name && access(name, F_OK) == 0;
	}
	return found;
}

/* A directory is replaced only if it contains nothing but files, or is a Zarr file like the new
 * one, so that a mistyped name cannot delete, for example, a home directory. */
static tomos_status check_replaced(const char *temporary, const char *path, bool *aside)
{
	struct stat new, old;
	*aside = false;
	if (lstat(path, &old) != 0 || lstat(temporary, &new) != 0)
		return TOMOS_OK;
	if (S_ISDIR(old.st_mode) != S_ISDIR(new.st_mode))
		return fail(TOMOS_IO, "'%s' is %s and is not replaced by %s ('%s')", path,
			S_ISDIR(old.st_mode) ? "a directory" : "a file",
			S_ISDIR(new.st_mode) ? "a directory" : "a file", temporary);
	*aside = S_ISDIR(old.st_mode);
	if (*aside && !(is_zarr(path) && is_zarr(temporary)) &&
		nftw(path, reject_inner_directory, WALK_FILES, FTW_PHYS) != 0)
		return fail(TOMOS_IO,
			"directory '%s' has directories in it and is not replaced by '%s'", path,
			temporary);
	return TOMOS_OK;
}

static tomos_status cannot_rename(const char *from, const char *to)
{
	return fail(TOMOS_IO, "'%s' cannot be renamed to '%s': %s", from, to, strerror(errno));
}

static tomos_status rename_to(const char *from, const char *to)
{
	return rename(from, to) == 0 ? TOMOS_OK : cannot_rename(from, to);
}

/* Exchanges two names in one step, so that 'path' exists at every moment. Returns false with
 * errno 0 where the file system cannot. */
static bool exchange_names(const char *temporary, const char *path)
{
#ifdef RENAME_EXCHANGE
	if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
		return true;
	if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP)
		errno = 0;
#else
	(void)temporary, (void)path;
	errno = 0;
#endif
	return false;
}

/* rename() cannot replace a directory that is not empty: the old one is renamed first, and back if
 * the second rename fails. */
static tomos_status rename_in_turn(const char *temporary, const char *path)
{
	char *old;
	TRY(name_beside(&old, path, true));
	tomos_status status = rename_to(path, old);
	if (status == TOMOS_OK) {
		status = rename_to(temporary, path);
		if (status != TOMOS_OK) {
			(void)rename(old, path);
		} else { /* from here on it is also removed if the program exits */
			(void)remember(old);
			file_discard(old);
		}
	}
	mem_free(old);
	return status;
}

/* A run that is killed before the old directory is removed finds it under the temporary name, where
 * --resume compares every slice with the checksum in the journal. */
static tomos_status replace_directory(const char *temporary, const char *path)
{
	if (exchange_names(temporary, path)) {
		file_discard(temporary);
		return TOMOS_OK;
	}
	return errno ? cannot_rename(temporary, path) : rename_in_turn(temporary, path);
}

/* Renames without replacing an existing file: by the system call or, where the file system lacks
 * it, by a hard link. Directories have no hard links; for these the check is made just before the
 * rename. */
int file_rename_new(const char *from, const char *to)
{
	struct stat info;
#ifdef RENAME_NOREPLACE
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP)
		return -1;
#endif
	if (link(from, to) == 0)
		return unlink(from);
	if (errno == EEXIST)
		return -1;
	if (lstat(to, &info) != 0)
		return rename(from, to);
	errno = EEXIST;
	return -1;
}

static tomos_status publish_new(const char *temporary, const char *path)
{
	if (file_rename_new(temporary, path) == 0)
		return TOMOS_OK;
	if (errno == EEXIST || errno == ENOTEMPTY)
		return fail(TOMOS_IO,
			"'%s' appeared while it was being written and overwrite was not asked for",
			path);
	return cannot_rename(temporary, path);
}

static tomos_status publish_over(const char *temporary, const char *path)
{
	bool aside;
	TRY(check_replaced(temporary, path, &aside));
	return aside ? replace_directory(temporary, path) : rename_to(temporary, path);
}

tomos_status file_publish(const char *temporary, const char *path, bool overwrite)
{
	int synced = nftw(temporary, sync_entry, WALK_FILES, FTW_PHYS);
	if (synced == SYNC_CANCELLED)
		return fail(TOMOS_CANCELLED, "writing '%s' was cancelled", path);
	if (synced != 0)
		return fail(TOMOS_IO, "'%s', to become '%s', cannot be brought to the disk: %s",
			temporary, path, strerror(errno));
	TRY(overwrite ? publish_over(temporary, path) : publish_new(temporary, path));
	forget(temporary);
	char *directory;
	if (directory_of(&directory, path, path_parts(path)) == TOMOS_OK) {
		(void)sync_path(directory); /* complete; the rename may reach the disk later */
		mem_free(directory);
	}
	return TOMOS_OK;
}

void file_discard(const char *temporary)
{
	if (temporary) {
		remove_tree(temporary);
		forget(temporary);
	}
}

void tomos_file_discard_all(void)
{
	pthread_mutex_lock(&pending_lock);
	while (pending) {
		Pending *entry = pending;
		pending = entry->next;
		if (entry->owner == getpid())
			remove_tree(entry->name);
		mem_free(entry);
	}
	pthread_mutex_unlock(&pending_lock);
}
