package schema

import (
	"strings"
	"testing"
)

func TestPathsAreCutShort(t *testing.T) {
	step := strings.Repeat("s", maxStep)
	same(t, Pointer(nil), "")
	same(t, Pointer([]string{"a/b", "~", step}), "/a~1b/~0/"+step)
	same(t, Pointer([]string{step + "s", "b"}), "/"+step+".../b")
	same(t, Pointer([]string{step[1:] + "é", "b"}), "/"+step[1:]+".../b")
	many := make([]string, 1000)
	for i := range many {
		many[i] = step
	}
	many[0], many[999] = "first", "last"
	got := Pointer(many)
	if len(got) > maxPath || !strings.HasPrefix(got, "/first/s") ||
		!strings.HasSuffix(got, "s/last") || !strings.Contains(got, "s/.../s") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
