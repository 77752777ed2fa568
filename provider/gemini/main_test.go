package gemini

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// loud runs the tests, and holds against them what the SDK writes to the
// standard logger, which is the program's own.
type loud struct{ *testing.M }

func (l loud) Run() int {
	var said bytes.Buffer
	log.SetOutput(&said)
	code := l.M.Run()
	if said.Len() > 0 && code == 0 {
		fmt.Fprintf(os.Stderr, "written to the standard logger:\n%s", said.String())
		code = 1
	}
	return code
}

func TestMain(m *testing.M) {
	// The SDK's metrics start a worker that has no end.
	goleak.VerifyTestMain(loud{m}, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
