# cmake -DIN=view.html -DOUT=view_html.h -DNAME=view_html -P embed.cmake: a file as a constant of C, a NUL after it.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "static const unsigned char ${NAME}[] = {${bytes}0};\n")
