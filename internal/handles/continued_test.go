package handles_test

import (
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/internal/handles"
	"github.com/fermata-ai/fermata/tool"
)

// What two bodies have produced, one after the other, is what one would have
// produced, in any sizes.
func TestContinuedContent(t *testing.T) {
	texts := []string{"", "a\n", "häh", strings.Repeat("x", handles.MaxHalf-1),
		strings.Repeat("yö", handles.MaxHalf), strings.Repeat("z\n", 3*handles.MaxHalf)}
	for i, one := range texts {
		for j, two := range texts {
			first := handles.Appended(tool.Content{}, one)
			got := handles.Continued(first, handles.Appended(tool.Content{}, two))
			want := handles.Appended(first, two)
			if got.Total != want.Total || !strings.HasPrefix(one+two, got.Head) ||
				!strings.HasSuffix(one+two, got.Tail) {
				t.Errorf("%d and %d: %d bytes, %d and %d are kept", i, j, got.Total, len(got.Head),
					len(got.Tail))
			}
			if all, _ := handles.Since(&got, true, 0, 0); len(one+two) < handles.MaxHalf/2 && all != one+two {
				t.Errorf("%d and %d are %q", i, j, all)
			}
			if new, next := handles.Since(&got, true, len(one), 0); len(two) < handles.MaxHalf/2 &&
				(new != two || next != len(one+two)) {
				t.Errorf("%d and %d: new is %q, up to %d", i, j, new, next)
			}
		}
	}
}

// A screen takes the place of what was there, and counts on.
func TestContinuedScreen(t *testing.T) {
	screen := tool.Content{Total: 4, Tail: "$ ls", Screen: true}
	got := handles.Continued(handles.Appended(tool.Content{}, "before"), screen)
	if got.Total != 10 || got.Head != "" || got.Tail != "$ ls" || !got.Screen {
		t.Errorf("%+v", got)
	}
}
