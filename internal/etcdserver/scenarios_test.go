//go:build prove

package etcdserver_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
)

// All scenarios of package fermatatest's own tests are cut on etcd, each process
// of theirs a client of this one. They take many minutes, and "make prove" runs
// them; a taste of them is TestKilledAtEveryWrite.
func TestKilledInEveryScenario(t *testing.T) {
	shared, err := sharedkv.Listen(open(t, place(), nil))
	must(t, err)
	defer shared.Close()
	// On a file, and killed twice, they are the same scenarios once more.
	inner := exec.Command("go", "test", "-count=1", "-v", "-timeout=2h", "-run", "^TestKilled",
		"-skip", "Twice|File", "github.com/fermata-ai/fermata/fermatatest")
	inner.Env = append(os.Environ(), "FERMATA_ENGINE="+shared.Addr())
	out, err := inner.CombinedOutput()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if at := strings.Index(lines.Text(), "counted:"); at >= 0 {
			t.Log(lines.Text()[at:])
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
