package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/fermata-ai/fermata/event"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/tool"
	"github.com/fermata-ai/fermata/webhook"
)

// call shows a call.
func (v *visit) call() error {
	c, err := v.h.rn.Call(v.r.Context(), v.session(), v.r.PathValue("call"), v.user)
	if err != nil {
		return err
	}
	v.linked(v.session(), &c)
	return v.answer(http.StatusOK, c)
}

// cancelCall cancels a call, given by its id or by that of a pause.
func (v *visit) cancelCall() error {
	var why reason
	if err := v.receive(&why); err != nil {
		return err
	}
	r, err := v.h.rn.Cancel(v.r.Context(), v.session(), v.r.PathValue("call"), v.user, why.Reason)
	if err != nil {
		return err
	}
	return v.answer(http.StatusOK, acceptedOf("", r))
}

// A file that a tool made has an address, by its content: so it is the same in
// each stream and in each process, and never another file.

// linked puts addresses in the place of the bytes that a call made.
func (v *visit) linked(session string, c *runner.CallDetails) {
	for i := range c.Artifacts {
		v.link(session, c.Call, &c.Artifacts[i])
	}
}

func (v *visit) link(session, call string, a *tool.Artifact) {
	if len(a.Data) > 0 {
		a.URL = v.h.path("sessions", session, "calls", call, "artifacts", digest(a.Data))
		a.Data = nil
	}
}

// linkedEvent is linked for an event of a session.
func (v *visit) linkedEvent(session string, ev event.Event) event.Event {
	switch ev := ev.(type) {
	case event.Artifact:
		v.link(session, ev.Call, &ev.Artifact)
		return ev
	case event.Nested:
		ev.Event = v.linkedEvent(ev.Session, ev.Event)
		return ev
	}
	return ev
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// artifact serves a file that a call made. No browser shows it as a page of the
// handler's own, or runs anything in it.
func (v *visit) artifact() error {
	c, err := v.h.rn.Call(v.r.Context(), v.session(), v.r.PathValue("call"), v.user)
	if err != nil {
		return err
	}
	want := v.r.PathValue("artifact")
	for _, a := range c.Artifacts {
		if len(a.Data) > 0 && digest(a.Data) == want {
			v.file(want, a)
			return nil
		}
	}
	return refuse("no_such_path", "the call has made no such file")
}

func (v *visit) file(sum string, a tool.Artifact) {
	h := v.w.Header()
	h.Set("Content-Type", mediaType(a.MediaType))
	h.Set("Content-Disposition", attachment(a.Name))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "private, no-cache") // the user is asked for each time
	h.Set("ETag", `"`+sum+`"`)
	w := &rangeWriter{ResponseWriter: v.w}
	http.ServeContent(w, v.r, "", time.Time{}, bytes.NewReader(a.Data))
}

// mediaType returns a type that a tool gave, if it is one.
func mediaType(given string) string {
	media, params, err := mime.ParseMediaType(given)
	if err == nil && strings.Contains(media, "/") {
		if text := mime.FormatMediaType(media, params); text != "" {
			return text
		}
	}
	return "application/octet-stream"
}

// attachment returns the header by which a browser saves a file under its name.
func attachment(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name)
	if text := mime.FormatMediaType("attachment", map[string]string{"filename": name}); text != "" {
		return text
	}
	return "attachment"
}

// rangeWriter makes a problem of the text with which http.ServeContent refuses
// a range.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	w.Header().Del("Content-Length")
	webhook.WriteError(w.ResponseWriter, refuse("range", "the file has no such range"))
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
