//go:build prove

package postgres_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/fermatatest/sharedkv"
	"github.com/fermata-ai/fermata/kvstore/postgres"
	"github.com/fermata-ai/fermata/kvstore/postgres/postgrestest"
)

// All scenarios of package fermatatest's own tests are cut on PostgreSQL, each
// process of theirs a client of this one. They take many minutes, and "make
// prove" runs them; a taste of them is TestKilledAtEveryWrite.
func TestKilledInEveryScenario(t *testing.T) {
	server := postgrestest.Shared(t)
	kv := open(t, server, &postgres.Options{Schema: migrated(t, server)})
	shared, err := sharedkv.Listen(kv)
	must(t, err)
	defer shared.Close()
	// On a file, and killed twice, they are the same scenarios once more.
	inner := exec.Command("go", "test", "-count=1", "-v", "-timeout=2h", "-run", "^TestKilled",
		"-skip", "Twice|File", "github.com/fermata-ai/fermata/fermatatest")
	inner.Env = append(os.Environ(), "FERMATA_ENGINE="+shared.Addr())
	out, err := inner.CombinedOutput()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if strings.Contains(lines.Text(), "counted:") {
			t.Log(lines.Text()[strings.Index(lines.Text(), "counted:"):])
		}
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
