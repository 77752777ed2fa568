package tool

import (
	"strconv"
	"strings"
)

const maxExcerpt = 60 // bytes of a value that an error quotes

// clip cuts a text short for an error. What is cut off is marked.
func clip(s string) string {
	if len(s) <= maxExcerpt {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.ToValidUTF8(s[:maxExcerpt], "") + "..."
}

// excerpt quotes the beginning of a text.
func excerpt(s string) string { return strconv.Quote(clip(s)) }
