/* Manual page and completion script, generated from the same rows as the help. */
#include <stdio.h>
#include <string.h>
#include "cli.h"
#include "survey.h"

/* Escapes text for roff: hyphens, backslashes, and lines that would begin a request. */
static void roff(const char *text)
{
	for (const char *at = text; *at; at++) {
		if (at == text && (*at == '.' || *at == '\''))
			fputs("\\&", stdout);
		if (*at == '-')
			fputs("\\-", stdout);
		else if (*at == '\\')
			fputs("\\e", stdout);
		else
			putchar(*at);
	}
}

static void roff_row(const command *c, int number, const tomos_option *row)
{
	char heading[160], help[1024];
	row_heading(row, heading);
	row_help(c, number, row, help);
	fputs(".TP\n\\fB", stdout);
	roff(heading);
	fputs("\\fR\n", stdout);
	roff(help);
	putchar('\n');
}

static void roff_rows(const command *c)
{
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; g.heading[0] && number != GROUP_common && i < g.count; i++)
			if (row_used(c, number, i))
				roff_row(c, number, &g.rows[i]);
	}
}

static void roff_examples(const command *c)
{
	printf(".PP\nExamples:\n.PP\n.nf\n");
	for (const char *at = c->examples; *at;) {
		char line[256];
		size_t n = strcspn(at, "\n");
		snprintf(line, sizeof line, "%.*s", (int)n, at);
		roff(line);
		putchar('\n');
		at += n + (at[n] == '\n');
	}
	printf(".fi\n");
}

static void roff_general(void)
{
	const command *c = command_find("version");
	printf(".SH GENERAL OPTIONS\nEvery command knows these. An option is written "
	       "\\fB\\-\\-name value\\fR or \\fB\\-\\-name=value\\fR;\n"
	       "\\fB\\-\\-\\fR ends the options. Angles are in degrees. A list is written a,b,c, "
	       "or "
	       "@FILE for a\nfile of numbers separated by commas, blanks or line ends.\n");
	group g = group_get(GROUP_common);
	for (int i = 0; i < g.count; i++)
		roff_row(c, GROUP_common, &g.rows[i]);
}

/* "a, b, c" of "a|b|c". */
static void roff_names(const char *names)
{
	char name[2] = "";
	for (; *names; names++)
		if (*names == '|')
			printf(",\n");
		else
			roff((name[0] = *names, name));
}

static void roff_environment(void)
{
	static const char *const rows[][2] = {
		{"TOMOS_CLOCK", "thread: the times of stages in reports are processor times of "
				"the calling thread"},
		{"TOMOS_CPU", "instruction set to use: base, avx2, avx512"},
		{"TOMOS_CUDA", "use no more of a GPU than one of this compute capability, times "
			       "ten, has: 80"},
		{"TOMOS_KERNEL",
			"the kernel to prefer where it applies (\\fBtomos info kernels\\fR)"},
		{"TOMOS_MODULES", "folder of the modules of CUDA, OpenCL and MPI (libtomos_*.so); "
				  "otherwise that of the library"},
		{"TOMOS_MPI", "whether and how processes are ranks of MPI: none, openmpi, mpich; "
			      "otherwise as the launcher says"},
		{"TOMOS_REPORT_SECONDS", "how long reading a scan again may take, for the pictures "
					 "of a report"},
		{"TOMOS_RESIDENT", "0: data do not stay on the GPU between preparation and "
				   "reconstruction, for comparisons"},
		{"TOMOS_THREADS", "threads, where \\fB\\-\\-threads\\fR is not given"},
		{"TOMOS_TUNE", "off: do not use what \\fBtomos tune\\fR found"}};
	printf(".SH ENVIRONMENT\n");
	for (int i = 0; i < COUNT(rows); i++)
		printf(".TP\n\\fB%s\\fR\n%s\n", rows[i][0], rows[i][1]);
}

static void roff_surroundings(void)
{
	printf(".SH PHANTOMS\n");
	roff_names(tomos_phantom_names());
	printf("\n.SH WORKLOADS\n");
	roff_names(workload_names());
	printf("\n.SH GEOMETRIES OF THE SURVEY\n");
	roff_names(survey_names());
	printf("\n.SH FILES\nArrays are read from HDF5 (.h5, .hdf5, .nxs), NumPy (.npy), MetaImage "
	       "(.mhd, .mha), NIfTI (.nii, .nii.gz), NRRD (.nrrd, .nhdr), VTI (.vti), Zarr (.zarr) "
	       "and TIFF "
	       "files\n(.tif, .tiff) or a folder of these, whatever their "
	       "names, from plain numbers with \\fB\\-\\-raw\\fR, and written by\nthe ending "
	       "of the name. HDF5 and Zarr hold the grid or the views beside the data, MetaImage, "
	       "NIfTI, NRRD and VTI the grid. "
	       "Views are in .json, or in .txt with 12 columns.\n");
	roff_environment();
	printf(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage or a value out of range, 130 "
	       "interrupted.\n"
	       ".SH SEE ALSO\n\\fBtomos help\\fR \\fICOMMAND\\fR; tomos.h for the C library.\n");
}

void help_man(void)
{
	int count;
	const command *list = command_list(&count);
	printf(".TH TOMOS 1 \"\" \"tomos %s\" \"User Commands\"\n", tomos_version());
	printf(".SH NAME\ntomos \\- images from X\\-ray projections\n");
	printf(".SH SYNOPSIS\n\\fBtomos\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n");
	printf(".SH DESCRIPTION\nSimulates and reconstructs tomographic scans: parallel, fan and "
	       "cone "
	       "beam,\nlaminography, helix and free views. Lengths are in one unit of your choice, "
	       "attenuation in\n1/unit, angles in degrees. No output is left half\\-written, and "
	       "none "
	       "is replaced without\n\\fB\\-\\-overwrite\\fR.\n");
	roff_general();
	printf(".SH COMMANDS\n");
	for (int i = 0; i < count; i++) {
		printf(".SS tomos %s ", list[i].name);
		roff(list[i].usage);
		putchar('\n');
		roff(list[i].summary);
		printf(".\n");
		roff_rows(&list[i]);
		roff_examples(&list[i]);
	}
	roff_surroundings();
}

/* "a|b|c" as separate words. */
static void words(const char *names)
{
	for (; *names; names++)
		putchar(*names == '|' ? ' ' : *names);
}

static void bash_options(const command *c)
{
	char name[64];
	printf("\t%s) options=\"", c->name);
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; g.heading[0] && i < g.count; i++) {
			if (!row_used(c, number, i))
				continue;
			name_shown(g.rows[i].name, name);
			printf("--%s ", name);
		}
	}
	printf("\" operands=\"");
	if (word_has(c->operands, "phantom"))
		words(tomos_phantom_names());
	if (word_has(c->operands, "command"))
		words(command_names());
	if (word_has(c->operands, "workload")) {
		words(workload_names());
		putchar(' ');
		words(survey_names());
	}
	if (word_has(c->operands, "devices"))
		printf("devices kernels");
	printf("\" ;;\n");
}

/* Completion after an option: its choices, a file, or nothing. */
static void bash_values(const command *c)
{
	for (int number = 0; number < GROUP_COUNT; number++) {
		group g = group_get(number);
		for (int i = 0; g.heading[0] && i < g.count; i++) {
			char name[64];
			const tomos_option *row = &g.rows[i];
			if (row->kind == TOMOS_FLAG || !row_used(c, number, i))
				continue;
			name_shown(row->name, name);
			printf("\t%s:--%s) ", c->name, name);
			if (row->kind == TOMOS_CHOICE) {
				printf("values=\"");
				words(row_values(row));
				printf("\" ;;\n");
			} else {
				printf("%s ;;\n",
					strcmp(row->values, "FILE") == 0 ? "files=1" : ":");
			}
		}
	}
}

void help_bash(void)
{
	int count;
	const command *list = command_list(&count);
	printf("# bash completion for tomos\n_tomos()\n{\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\tlocal command=${COMP_WORDS[1]} options= operands= values= files=\n"
	       "\tCOMPREPLY=()\n"
	       "\tlocal IFS=$' \\t\\n'\n"
	       "\t[ \"$before\" = = ] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
	       "\t[ \"$word\" = = ] && word=\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tCOMPREPLY=($(compgen -W \"");
	words(command_names());
	printf("\" -- \"$word\"))\n\t\treturn\n\tfi\n"
	       "\t[ \"$before\" = -o ] && before=--output\n"
	       "\tcase $command in\n");
	for (int i = 0; i < count; i++)
		bash_options(&list[i]);
	printf("\tesac\n\tcase $command:$before in\n");
	for (int i = 0; i < count; i++)
		bash_values(&list[i]);
	printf("\t*) values=$operands files=1\n\t\t[ \"${word:0:1}\" = - ] && values=$options "
	       "files= ;;\n"
	       "\tesac\n"
	       "\tCOMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
	       "\tIFS=$'\\n'\n"
	       "\t[ -n \"$files\" ] && COMPREPLY+=($(compgen -f -- \"$word\"))\n"
	       "}\ncomplete -o filenames -F _tomos tomos\n");
}
