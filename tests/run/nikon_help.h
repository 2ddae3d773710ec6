/* Scans as Nikon's .xtekct describes them. */
#ifndef TOMOS_TESTS_RUN_NIKON_HELP_H
#define TOMOS_TESTS_RUN_NIKON_HELP_H

#include "run/scanner_help.h"

/* Offsets in mm are to the left as seen from the source, angles those of the stage. */
typedef struct {
	double first, step, object, detector[2], roll, tilt;
	bool older, unsaid; /* older keys; the axis is to be searched for */
	bool both;          /* the newer keys are there as well and 0 */
	int fewer;          /* views than there are files */
} Case;

static inline void put_xtekct(const char *path, const Case *c, const Lab *lab)
{
	char text[2000], axis[400];
	double height = 0.5 * (double)lab->rows * tan(-c->roll * M_PI / 180);
	if (c->older)
		snprintf(axis, sizeof axis,
			"CentreOfRotationTop=%.9g\r\nCentreOfRotationBottom=%.9g\r\n%s",
			c->object * 2.5 + 0.5 * height, c->object * 2.5 - 0.5 * height,
			c->both ? "ObjectOffsetX=0\r\nObjectRoll=0\r\n" : "");
	else
		snprintf(axis, sizeof axis,
			"ObjectOffsetX=%.9g\r\nObjectRoll=%.9g\r\nObjectTilt=%.9g\r\n"
			"CentreOfRotationTop=0\r\nCentreOfRotationBottom=0\r\n",
			c->object, c->roll, c->tilt);
	snprintf(text, sizeof text,
		"[XTekCT]\r\nName=part\r\nSrcToObject=200\r\nSrcToDetector=500\r\n"
		"DetectorPixelsX=%d\r\nDetectorPixelsY=%d\r\nDetectorPixelSizeX=0.5\r\n"
		"DetectorPixelSizeY=0.5\r\nDetectorOffsetX=%.9g\r\nDetectorOffsetY=%.9g\r\n%s"
		"Projections=%d\r\nAngularStep=%.9g\r\nInitialAngle=%.9g\r\nWhiteLevel=60000\r\n"
		"AutomaticCentreOfRotation=%d\r\nInputFolderName=\r\nInputSeparator=_\r\n"
		"[Xrays]\r\nXraykV=120\r\n",
		LAB_COLUMNS, LAB_ROWS, c->detector[0], c->detector[1], axis, LAB_VIEWS - c->fewer,
		c->step, c->first, c->unsaid);
	put_words(path, text);
}

static inline void put_scan(const Case *c)
{
	Lab lab = lab_make();
	double roll = c->roll * M_PI / 180, tilt = -c->tilt * M_PI / 180;
	lab.axis[0] = -c->object;
	lab.detector[0] = -c->detector[0];
	lab.detector[2] = -c->detector[1];
	lab.along[0] = sin(roll);
	lab.along[1] = -sin(tilt) * cos(roll);
	lab.along[2] = cos(tilt) * cos(roll);
	lab.first = c->first;
	lab.step = c->step;
	float *counts = lab_counts(&lab);
	put_tiffs(&lab, counts, "part_", 4, 1);
	free(counts);
	put_xtekct(at("part.xtekct"), c, &lab);
}

/* Replaces words of a file. */
static inline void change(const char *path, const char *from, const char *to)
{
	size_t length;
	char *bytes = (char *)get_file(path, &length), changed[4000];
	char *text = strndup(bytes, length);
	const char *place = strstr(text, from);
	assert_non_null(place);
	free(bytes);
	snprintf(changed, sizeof changed, "%.*s%s%s", (int)(place - text), text, to,
		place + strlen(from));
	put_words(path, changed);
	free(text);
}

#endif
