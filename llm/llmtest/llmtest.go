// Package llmtest is the suite that every adapter to a model provider passes:
// against replies recorded in the provider's wire form and delivered in awkward
// ways ([Run]), against a server that others wrote ([RunAimock]), and against
// the real service ([RunReal]).
//
// # A new adapter
//
// Write a test that calls [Run], and run it. It fails, and names each file that
// it misses in [Provider].Replies, with what the reply in it has to come to:
// the model's message, or an error. Write these replies in the provider's wire
// form: a status line, headers, an empty line, and the body. What the provider
// can't have goes into [Provider].Lacks, by the test's name, with the reason.
// In a reply's body, @@LONG@@ stands for a text that is very long, and in
// arguments.http @@ARGUMENTS@@, within a JSON string, for what models have
// written as arguments. Those of the adapters here, such as
// provider/openai/testdata/chat/replies, are there to be copied.
//
// Then run it once with -update, and read what it writes beside the replies, in
// requests and schemas: what the adapter sends in each case. The suite sees
// that a tool choice, a limit, a cache hint and media make a difference to what
// is sent; whether it is the right one, only a reader does.
//
// Besides what [llm.Model] says, an adapter has to
//
//   - be an [llm.ToolChecker], whose answer is that of Generate;
//   - give an error that is Temporary, such as [llm.ErrTruncated], for a stream
//     that was cut off, also in the middle of a line or of its JSON;
//   - return the context's error once that has ended;
//   - leave out native parts of other providers, and send its own byte for
//     byte.
package llmtest

import (
	"encoding/json"
	"flag"
	"net/http"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// Provider is what the suite has to know of an adapter.
type Provider struct {
	// Name is the one in the adapter's errors, and the Provider of the native
	// parts it makes.
	Name string
	// New makes the adapter. It talks to BaseURL, has a key that means nothing,
	// and doesn't try again by itself.
	New func(t testing.TB, o Options) llm.Model
	// Replies is the folder of recorded replies: a raw HTTP response a file,
	// SCENARIO.stream.http and SCENARIO.whole.http, or SCENARIO.http for both.
	// Beside it, the suite keeps the folders requests and schemas, of what the
	// adapter sends.
	Replies string
	// Calls reads from a request's body the ids of calls and of results, in
	// order; names, where the wire has no ids.
	Calls func(request []byte) (calls, results []string)
	// Lists reads from a request's body the tools.
	Lists func(request []byte) json.RawMessage
	// Lacks says of tests why the provider can't have them; of "call_ids", why
	// its calls have names in place of ids.
	Lacks map[string]string
	// Real makes the adapter for the real service; nil where the environment
	// has no key for it.
	Real func(t testing.TB, whole bool) llm.Model
}

// Options are what an adapter is made with.
type Options struct {
	BaseURL string
	Whole   bool // ask for messages at once, in place of streams
	Strict  bool // strict mode for tools, where the provider has it; the adapter may ignore it
	Client  *http.Client
}

var update = flag.Bool("update", false, "write the golden files of requests and schemas anew")

// forms are the two ways to ask for a message.
var forms = []struct {
	name  string
	whole bool
}{{"stream", false}, {"whole", true}}

// Run takes an adapter through all recorded replies.
func Run(t *testing.T, p Provider) {
	if inChild(t, p) {
		return
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if why, ok := p.Lacks[s.name]; ok {
				t.Skip(why)
			}
			for _, form := range forms {
				if form.whole && s.streamed {
					continue
				}
				t.Run(form.name, func(t *testing.T) { s.run(t, p, form.whole) })
			}
		})
	}
	t.Run("arguments", func(t *testing.T) { arguments(t, p) })
	t.Run("chunks", func(t *testing.T) { chunks(t, p) })
	t.Run("cuts", func(t *testing.T) { cuts(t, p) })
	t.Run("cancel", func(t *testing.T) { cancel(t, p) })
	t.Run("silence", func(t *testing.T) { silence(t, p) })
	t.Run("endless", func(t *testing.T) { endless(t, p) })
	t.Run("secrets", func(t *testing.T) { secrets(t, p) })
	t.Run("requests", func(t *testing.T) { requests(t, p) })
	t.Run("schemas", func(t *testing.T) { schemas(t, p, false) })
	t.Run("schemas_strict", func(t *testing.T) { schemas(t, p, true) })
	t.Run("pauses", func(t *testing.T) { pauses(t, p) })
	t.Run("table", func(t *testing.T) { table(t, p) })
}
