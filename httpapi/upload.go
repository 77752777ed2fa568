package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/llm"
)

// What a message of multipart/form-data may have, beside its bytes.
const (
	maxFiles  = 16
	maxFields = 8
)

// receiveFiles is receive for a message that may bring files: then its body is
// multipart/form-data, and the members of the JSON are fields.
func (v *visit) receiveFiles(into any) ([]llm.Part, error) {
	media, params, err := mime.ParseMediaType(v.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return nil, v.receive(into)
	}
	defer v.patient()
	if err := httpin.Plain(v.w, v.r); err != nil {
		return nil, err
	}
	if v.r.ContentLength > v.h.uploads.Max {
		v.w.Header().Set("Connection", "close") // or the server would read on
		return nil, v.h.uploads.TooLarge()
	}
	body := multipart.NewReader(io.MultiReader(
		http.MaxBytesReader(v.w, v.r.Body, v.h.uploads.Max), strings.NewReader("\r\n"), cut{},
	), params["boundary"])
	fields, files, err := v.parts(body)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return files, v.route.files.read(text, into)
}

// cut is what stands behind a body, and behind the end of its last line. Only
// who hasn't seen the closing boundary reads it: to a multipart.Reader, a body
// that ends anywhere between two parts is whole.
type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// parts reads the parts of a body, each whole: the message is stored as one.
func (v *visit) parts(
	body *multipart.Reader,
) (fields map[string]string, files []llm.Part, err error) {
	fields = map[string]string{}
	for {
		part, err := body.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return fields, files, nil
		case err != nil:
			return nil, nil, v.unread(err)
		case part.FileName() == "" && len(fields) == maxFields,
			part.FileName() != "" && len(files) == maxFiles:
			return nil, nil, refuse("invalid", fmt.Sprintf("a message has at most %d fields and %d files",
				maxFields, maxFiles))
		}
		if part.FileName() != "" {
			file, err := v.one(part)
			if err != nil {
				return nil, nil, err
			}
			files = append(files, file)
			continue
		}
		name := part.FormName()
		if _, twice := fields[name]; twice {
			return nil, nil, refuse("invalid", fmt.Sprintf("the field %.40q is there twice", name))
		}
		text, err := io.ReadAll(io.LimitReader(part, v.h.bodies.Max+1))
		switch {
		case err != nil:
			return nil, nil, v.unread(err)
		case int64(len(text)) > v.h.bodies.Max:
			return nil, nil, v.h.bodies.TooLarge()
		}
		fields[name] = string(text)
	}
}

// one reads one file.
func (v *visit) one(part *multipart.Part) (llm.Part, error) {
	if part.FormName() != "file" {
		return nil, refuse("invalid", fmt.Sprintf("a file is in a field \"file\", and this one in %.40q",
			part.FormName()))
	}
	media, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(v.h.config.Limits.MediaTypes, media) {
		return nil, httpin.Unsupported(fmt.Sprintf("a file of the type %.60q is not taken; these are: %s",
			media, strings.Join(v.h.config.Limits.MediaTypes, ", ")))
	}
	data, err := io.ReadAll(part)
	switch {
	case err != nil:
		return nil, v.unread(err)
	case len(data) == 0:
		return nil, refuse("invalid", fmt.Sprintf("the file %.60q is empty", part.FileName()))
	}
	return llm.Media{MediaType: media, Name: part.FileName(), Data: data}, nil
}

// unread returns the refusal of a body that isn't read to its end.
func (v *visit) unread(err error) error { return v.h.uploads.Unread(v.w, err) }
