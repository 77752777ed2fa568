package wait_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var samples = regexp.MustCompile("(?s)```json\n(.*?)```")

// The replies that the page on waits shows stand in testdata: a model reads them
// so.
func TestThePageShowsWhatAModelReads(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	known := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if sign, reply, _ := strings.Cut(strings.TrimSpace(line), " "); sign == "<" || sign == "!" {
				known[reply] = true
			}
		}
	}
	page, err := os.ReadFile("../../docs/waits.md")
	must(t, err)
	all := samples.FindAllSubmatch(page, -1)
	if len(all) < 8 {
		t.Fatalf("the page shows %d replies", len(all))
	}
	for _, sample := range all {
		var reply bytes.Buffer
		must(t, json.Compact(&reply, sample[1]))
		if !known[reply.String()] {
			t.Errorf("the page shows a reply that no model reads:\n%s", sample[1])
		}
	}
}
