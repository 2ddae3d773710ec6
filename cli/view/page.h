/* The table that cmake/EmbedPage.cmake writes. */
#ifndef TOMOS_CLI_VIEW_PAGE_H
#define TOMOS_CLI_VIEW_PAGE_H

typedef struct page_file {
	const char *name;
	const unsigned char *bytes;
	long size;
} page_file;

extern const page_file page_files[];
extern const int page_count;

#endif
