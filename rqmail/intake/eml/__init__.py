"""A mail in MIME form (.eml, what SMTP brings) becomes what a draft is made of."""
