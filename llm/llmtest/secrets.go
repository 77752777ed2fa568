package llmtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fermata-ai/fermata/llm"
)

// secrets keeps the key where it belongs: out of what is printed, and away from where a service sends its callers on to. net/http would
// take along every header but those that it knows.
func secrets(t *testing.T, p Provider) {
	t.Run("printed", func(t *testing.T) {
		m := model(t, p, serve(t, atOnce, must(t, p, "text", false)), false)
		for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
			if s := fmt.Sprintf(verb, m.Model); strings.Contains(s, APIKey) {
				t.Errorf("%s tells the key: %s", verb, clip(s))
			}
		}
	})
	for _, form := range forms {
		for _, status := range []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect} {
			t.Run(fmt.Sprintf("redirected/%s/%d", form.name, status), func(t *testing.T) {
				answer := reply{status: status, header: http.Header{"Location": {"http://localhost:1/elsewhere"}}}
				srv := serve(t, atOnce, answer)
				_, _, err := model(t, p, srv, form.whole).collect(t, scenarios[0].request())
				var e *llm.Error
				if !errors.As(err, &e) || e.Kind != llm.ErrInvalid || !strings.Contains(err.Error(), "localhost:1") {
					t.Errorf("%v, want an error of kind %s that says where to", err, llm.ErrInvalid)
				}
				if n := len(srv.asked()); n != 1 {
					t.Errorf("%d requests were made", n)
				}
			})
		}
	}
}
