"""Pixels of a PNG file as rows of (red, green, blue), by libpng, for tests."""
import ctypes
import ctypes.util


class Image(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_void_p)] + [
        (name, ctypes.c_uint32)
        for name in ("version", "width", "height", "format", "flags", "entries", "error")
    ] + [("message", ctypes.c_char * 64)]


def read(path):
    png = ctypes.CDLL(ctypes.util.find_library("png16") or "libpng16.so.16")
    image = Image(version=1)
    assert png.png_image_begin_read_from_file(ctypes.byref(image), path.encode()), image.message
    image.format = 2  # PNG_FORMAT_RGB
    data = ctypes.create_string_buffer(3 * image.width * image.height)
    assert png.png_image_finish_read(ctypes.byref(image), None, data, 0, None), image.message
    wide, raw = 3 * image.width, data.raw
    lines = [raw[y * wide:(y + 1) * wide] for y in range(image.height)]
    return [list(zip(line[0::3], line[1::3], line[2::3])) for line in lines]
